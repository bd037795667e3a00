//! `resource.Quantity`: exact amounts with suffixes, as `1500m`, `2Gi` or `1e3`.
//!
//! k8s-openapi keeps a quantity as text; [`Amount`] is its value.
//! Values are exact to a thousand-millionth; what is finer is rounded up, as Kubernetes does it.
//!
//! Kubernetes: apimachinery, pkg/api/resource.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Parts of one in which a value is counted.
const NANO: i128 = 1_000_000_000;
/// Kubernetes caps amounts with binary suffixes at the largest 64-bit integer.
const BINARY_MAX: i128 = i64::MAX as i128 * NANO;
/// It has no bound for others; here it is what can be counted exactly, far beyond what any machine has.
const DECIMAL_MAX: i128 = 100_000_000_000_000_000_000_000_000_000 * NANO;

/// The form in which an amount was written, kept by arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// `1500m`, `2k`.
    #[default]
    Decimal,
    /// `2Gi`.
    Binary,
    /// `1e3`.
    Exponent,
}

/// An exact amount of a resource.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amount {
    nano: i128,
    form: Form,
}

/// Why a text is no quantity; the texts are Kubernetes' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text has another shape.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number is no number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The value of a text.
pub fn parse(text: &str) -> Result<Amount, QuantityError> {
    text.parse()
}

/// A quantity's text as the API server shows it; one that is no quantity as it is.
///
/// That is the canonical form, but for texts that Kubernetes takes for canonical, as `1.500`, `+5` or `1E6`: they stay.
pub fn canonical(quantity: &Quantity) -> String {
    let text = quantity.0.trim();
    match Parts::parse(text) {
        Ok(parts) if parts.stay_as_written() => text.to_owned(),
        Ok(parts) => parts.amount().to_string(),
        Err(_) => quantity.0.clone(),
    }
}

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount { nano: 0, form: Form::Decimal };

    /// A whole number.
    pub fn whole(value: i64) -> Amount {
        Amount { nano: i128::from(value) * NANO, form: Form::Decimal }
    }

    /// Thousandths.
    pub fn milli(value: i64) -> Amount {
        Amount { nano: i128::from(value) * (NANO / 1000), form: Form::Decimal }
    }

    /// Whole bytes, to be shown with binary suffixes.
    pub fn bytes(value: i64) -> Amount {
        Amount { nano: i128::from(value) * NANO, form: Form::Binary }
    }

    /// The value in whole units, rounded up (away from zero), as far as it fits.
    pub fn value(self) -> i64 {
        self.scaled_up(NANO)
    }

    /// The value in thousandths, rounded up (away from zero), as far as it fits.
    pub fn milli_value(self) -> i64 {
        self.scaled_up(NANO / 1000)
    }

    /// The value divided by a divisor, rounded up; `None` for a divisor of zero.
    pub fn divided_by(self, divisor: Amount) -> Option<i64> {
        (divisor.nano != 0).then(|| clamp(divide_up(self.nano, divisor.nano)))
    }

    /// True for nothing.
    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// True for less than nothing.
    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// True if the value is a whole number.
    pub fn is_whole(self) -> bool {
        self.nano % NANO == 0
    }

    /// The sum, in the form of the first that is not zero.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        let form = if self.is_zero() { other.form } else { self.form };
        Amount { nano: self.nano.saturating_add(other.nano).clamp(-DECIMAL_MAX, DECIMAL_MAX), form }
    }

    /// The difference, in the form of the first that is not zero.
    #[must_use]
    pub fn minus(self, other: Amount) -> Amount {
        self.plus(Amount { nano: -other.nano, ..other })
    }

    /// As text in the API.
    pub fn to_quantity(self) -> Quantity {
        Quantity(self.to_string())
    }

    fn scaled_up(self, unit: i128) -> i64 {
        clamp(divide_up(self.nano, unit))
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Amount) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Amount) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Amount) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl TryFrom<&Quantity> for Amount {
    type Error = QuantityError;

    fn try_from(quantity: &Quantity) -> Result<Amount, QuantityError> {
        // As in JSON that the API server reads.
        quantity.0.trim().parse()
    }
}

impl FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Amount, QuantityError> {
        Parts::parse(text).map(Parts::amount)
    }
}

/// A quantity's text taken apart.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    is_negative: bool,
    /// The digits before the point, without leading zeros.
    whole: &'a str,
    /// The digits behind the point.
    fraction: &'a str,
    unit: Unit,
}

impl<'a> Parts<'a> {
    fn parse(text: &'a str) -> Result<Parts<'a>, QuantityError> {
        let digits_at = usize::from(text.starts_with(['+', '-']));
        let (sign, rest) = text.split_at(digits_at);
        let number_length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_length);
        if number.is_empty() || !is_suffix_shape(suffix) {
            return Err(QuantityError::Format);
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Number);
        }
        let unit = Unit::parse(suffix).ok_or(QuantityError::Suffix)?;
        Ok(Parts { is_negative: sign == "-", whole: whole.trim_start_matches('0'), fraction, unit })
    }

    fn amount(self) -> Amount {
        let nano = self.unit.nano(self.whole, self.fraction);
        // Less than one of anything has no binary form.
        let form = if nano < NANO && self.unit.form() == Form::Binary { Form::Decimal } else { self.unit.form() };
        Amount { nano: if self.is_negative { -nano } else { nano }, form }
    }

    /// Whether Kubernetes keeps the text, which it does without looking for zeros that a suffix could stand for.
    fn stay_as_written(self) -> bool {
        let digits = self.whole.len().max(1) + self.fraction.len();
        let starts_with_zero = self.whole.is_empty();
        match self.unit {
            Unit::Decimal(power) | Unit::Exponent(power) => {
                let scale = i64::from(power) - i64::try_from(self.fraction.len()).unwrap_or(i64::MAX);
                let ends_with_zeros = self.whole.chars().chain(self.fraction.chars()).rev().take(3).eq(['0'; 3]);
                digits <= 18 && scale >= -9 && scale % 3 == 0 && !ends_with_zeros && !starts_with_zero
            }
            Unit::Binary(power) => {
                let room = 14 - 3 * i64::from(power);
                let is_odd_enough = self.whole.parse::<u64>().is_ok_and(|value| value % 8 != 0);
                self.fraction.is_empty() && i64::try_from(digits).is_ok_and(|digits| digits <= room) && is_odd_enough
            }
        }
    }
}

/// `[eEinumkKMGTP]*[-+]?[0-9]*`
fn is_suffix_shape(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
    rest.chars().all(|c| c.is_ascii_digit())
}

/// What one of a number is worth.
#[derive(Clone, Copy, Debug)]
enum Unit {
    /// A power of ten, by suffix.
    Decimal(i32),
    /// A power of ten, as exponent.
    Exponent(i32),
    /// A power of 1024.
    Binary(u32),
}

impl Unit {
    fn parse(suffix: &str) -> Option<Unit> {
        Some(match suffix {
            "n" => Unit::Decimal(-9),
            "u" => Unit::Decimal(-6),
            "m" => Unit::Decimal(-3),
            "" => Unit::Decimal(0),
            "k" => Unit::Decimal(3),
            "M" => Unit::Decimal(6),
            "G" => Unit::Decimal(9),
            "T" => Unit::Decimal(12),
            "P" => Unit::Decimal(15),
            "E" => Unit::Decimal(18),
            "Ki" => Unit::Binary(1),
            "Mi" => Unit::Binary(2),
            "Gi" => Unit::Binary(3),
            "Ti" => Unit::Binary(4),
            "Pi" => Unit::Binary(5),
            "Ei" => Unit::Binary(6),
            _ => Unit::Exponent(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    fn form(self) -> Form {
        match self {
            Unit::Decimal(_) => Form::Decimal,
            Unit::Exponent(_) => Form::Exponent,
            Unit::Binary(_) => Form::Binary,
        }
    }

    /// The value of a number without sign, in thousand-millionths, rounded up and capped.
    fn nano(self, whole: &str, fraction: &str) -> i128 {
        match self {
            Unit::Decimal(power) | Unit::Exponent(power) => decimal_nano(whole, fraction, power),
            Unit::Binary(power) => {
                let factor = 1i128 << (10 * power);
                let whole = decimal_nano(whole, "", 0).saturating_mul(factor).min(BINARY_MAX);
                // The fraction is scaled before it is cut, so that 0.5Ki is 512.
                let (kept, lost) = fraction.split_at_checked(FRACTION_DIGITS_MAX).unwrap_or((fraction, ""));
                let digits: i128 = kept.parse().unwrap_or(0);
                let scale = 10i128.pow(u32::try_from(kept.len()).unwrap_or(0));
                let lost = i128::from(lost.bytes().any(|digit| digit != b'0'));
                whole.saturating_add(scaled_fraction(digits, factor, scale)).saturating_add(lost).min(BINARY_MAX)
            }
        }
    }
}

/// Digits of a fraction that are counted exactly, whatever its suffix; the others are rounded up.
const FRACTION_DIGITS_MAX: usize = 18;

/// `digits / scale * factor` in thousand-millionths, rounded up; in two steps, since the product needs more than 128 bits.
fn scaled_fraction(digits: i128, factor: i128, scale: i128) -> i128 {
    let product = digits.saturating_mul(factor);
    let (whole, rest) = (product / scale, product % scale);
    whole.saturating_mul(NANO).saturating_add(divide_up(rest.saturating_mul(NANO), scale))
}

/// `whole.fraction * 10^power` in thousand-millionths, rounded up and capped.
fn decimal_nano(whole: &str, fraction: &str, power: i32) -> i128 {
    let digits: String = whole.chars().chain(fraction.chars()).collect();
    let significant = digits.trim_start_matches('0');
    // The place of the first digit behind the number, in powers of ten of a thousand-millionth.
    let place = i64::from(power) + 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let mut nano: i128 = 0;
    let mut left = i64::try_from(significant.len()).unwrap_or(i64::MAX).saturating_add(place);
    let mut lost = false;
    for digit in significant.chars().filter_map(|c| c.to_digit(10)) {
        if left > 0 {
            nano = nano.saturating_mul(10).saturating_add(i128::from(digit)).min(DECIMAL_MAX);
            left -= 1;
        } else {
            lost |= digit != 0;
        }
    }
    for _ in 0..left.clamp(0, 40) {
        nano = nano.saturating_mul(10).min(DECIMAL_MAX);
    }
    if lost { nano.saturating_add(1).min(DECIMAL_MAX) } else { nano }
}

/// A quotient, rounded away from zero.
fn divide_up(value: i128, unit: i128) -> i128 {
    let quotient = value / unit;
    match value % unit {
        0 => quotient,
        rest if (rest < 0) == (unit < 0) => quotient + 1,
        _ => quotient - 1,
    }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl fmt::Display for Amount {
    /// The canonical form: no fraction, the largest suffix that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            _ if self.nano == 0 => f.write_str("0"),
            // A fraction would be lost, and less than 1024 needs no suffix.
            Form::Binary if self.nano.abs() >= 1024 * NANO && self.is_whole() => self.fmt_binary(f),
            Form::Exponent => self.fmt_decimal(f, true),
            _ => self.fmt_decimal(f, false),
        }
    }
}

impl Amount {
    fn fmt_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.nano / NANO;
        let suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        let mut suffix = 0;
        while value % 1024 == 0 && suffix + 1 < suffixes.len() {
            value /= 1024;
            suffix += 1;
        }
        write!(f, "{value}{}", suffixes.get(suffix).copied().unwrap_or_default())
    }

    fn fmt_decimal(self, f: &mut fmt::Formatter<'_>, exponent: bool) -> fmt::Result {
        let mut value = self.nano;
        let mut power = -9;
        while value % 1000 == 0 && power < 18 {
            value /= 1000;
            power += 3;
        }
        if exponent && power != 0 {
            return write!(f, "{value}e{power}");
        }
        let suffix = match power {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        };
        write!(f, "{value}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Result<String, QuantityError> {
        text.parse::<Amount>().map(|amount| amount.to_string())
    }

    #[test]
    fn amounts_are_shown_in_their_canonical_form() {
        let rows = [
            ("0", "0"),
            ("0Ki", "0"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1126400m"),
            ("0.0001Ki", "102400u"),
            ("1023", "1023"),
            ("1024", "1024"),
            ("100k", "100k"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("12e0", "12"),
            ("1E6", "1e6"),
            ("100e-3", "100e-3"),
            ("+5", "5"),
            ("-250m", "-250m"),
            ("0.0000000001", "1n"),
            ("123456789012345678901234567890", "100000000000E"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("9Ei", "9223372036854775807"),
        ];
        for (text, wanted) in rows {
            assert_eq!(shown(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn the_api_server_keeps_texts_that_it_takes_for_canonical() {
        let rows = [
            ("1.500", "1.500"),
            ("+5", "+5"),
            ("1E6", "1E6"),
            ("0012", "0012"),
            ("12e0", "12e0"),
            (" 1Gi ", "1Gi"),
            ("1025Ki", "1025Ki"),
            ("0.500", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("1024Ki", "1Mi"),
            ("1000Ki", "1000Ki"),
            ("000", "0"),
            ("much", "much"),
        ];
        for (text, wanted) in rows {
            assert_eq!(canonical(&Quantity(text.to_owned())), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_the_reason_of_kubernetes() {
        let rows = [
            ("", QuantityError::Format),
            ("one", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1.2.3", QuantityError::Number),
            (".", QuantityError::Number),
            ("1Zi", QuantityError::Format),
            ("1ki", QuantityError::Suffix),
            ("1K", QuantityError::Suffix),
            ("1m5", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
        ];
        for (text, wanted) in rows {
            assert_eq!(shown(text), Err(wanted), "{text}");
        }
    }

    #[test]
    fn values_are_rounded_up() {
        let amount: Amount = "1001u".parse().unwrap_or_default();
        assert_eq!((amount.value(), amount.milli_value()), (1, 2));
        let amount: Amount = "-1500m".parse().unwrap_or_default();
        assert_eq!((amount.value(), amount.milli_value()), (-2, -1500));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,40}") {
            drop(canonical(&Quantity(text)));
        }

        #[test]
        fn the_canonical_form_is_stable_and_keeps_the_value(text in "[+-]?[0-9]{1,20}(\\.[0-9]{0,12})?(n|u|m||k|M|G|T|Ki|Mi|Gi|Ti|e3|e-3)") {
            let amount: Amount = text.parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
            let again: Amount = amount.to_string().parse().map_err(|error| TestCaseError::fail(format!("{error}")))?;
            prop_assert_eq!(again, amount);
            prop_assert_eq!(again.to_string(), amount.to_string());
            let kept = Amount::try_from(&Quantity(canonical(&Quantity(text))));
            prop_assert_eq!(kept, Ok(amount));
        }
    }
}
