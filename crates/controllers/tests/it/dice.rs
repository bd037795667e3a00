//! A small seeded random source, the same on every machine, and the loop that runs a test with many seeds.
#![expect(clippy::print_stderr, clippy::disallowed_methods, reason = "a failing seed is told, and can be set")]

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// True that many times in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }
}

/// Runs a test with many seeds, or with the one that `CONTROLLERS_SEED` names; `CONTROLLERS_CASES` changes how many.
pub fn with_seeds(test: &str, cases: u64, run: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("CONTROLLERS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CONTROLLERS_CASES").unwrap_or(cases),
    };
    for seed in seeds {
        let told = Told { test, seed };
        run(seed);
        std::mem::forget(told);
    }
}

/// Tells the seed if the test fails with it.
struct Told<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        eprintln!(
            "failed with seed {seed}; repeat with: CONTROLLERS_SEED={seed} cargo test -p controllers --test it {test}",
            seed = self.seed,
            test = self.test
        );
    }
}
