//! The engine's only source of chance: a seed.

/// SplitMix64: one seed, the same numbers for ever.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A part of one: at least 0, less than 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
