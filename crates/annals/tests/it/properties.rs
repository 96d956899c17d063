//! Numbers and DynamoDB JSON, with random input.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use annals::items::{Item, Number, Value, item_from_json, item_to_json};
use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

/// A decimal number the slow way: a sign and digits on either side of the point, none of them a
/// zero at the outer end. Shares nothing with the code under test.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Model {
    is_negative: bool,
    whole: String,
    fraction: String,
}

impl Model {
    /// Reads `-ddd.dddE±d` by moving the point through a string of digits.
    fn read(text: &str) -> Self {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (digits, exponent) = text.split_once('E').unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().unwrap();
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let (mut whole, mut fraction) = (whole.to_owned(), fraction.to_owned());
        for _ in 0..exponent {
            let moved = if fraction.is_empty() {
                '0'
            } else {
                fraction.remove(0)
            };
            whole.push(moved);
        }
        for _ in exponent..0 {
            let moved = whole.pop().unwrap_or('0');
            fraction.insert(0, moved);
        }
        let whole = whole.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        let is_zero = whole.is_empty() && fraction.is_empty();
        Self {
            is_negative: is_negative && !is_zero,
            whole,
            fraction,
        }
    }

    fn significant(&self) -> usize {
        let all = format!("{}{}", self.whole, self.fraction);
        all.trim_matches('0').len()
    }

    /// The power of ten of the first digit.
    fn magnitude(&self) -> i32 {
        if !self.whole.is_empty() {
            return self.whole.len() as i32 - 1;
        }
        let zeros = self.fraction.len() - self.fraction.trim_start_matches('0').len();
        -(zeros as i32) - 1
    }

    fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.fraction.is_empty()
    }

    fn is_allowed(&self) -> bool {
        self.is_zero() || (self.significant() <= 38 && (-130..=125).contains(&self.magnitude()))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let absolute = |a: &Self, b: &Self| {
            let whole = a.whole.len().cmp(&b.whole.len());
            let whole = whole.then_with(|| a.whole.cmp(&b.whole));
            whole.then_with(|| a.fraction.cmp(&b.fraction))
        };
        match (self.is_negative, other.is_negative) {
            (false, false) => absolute(self, other),
            (true, true) => absolute(other, self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }

    fn print(&self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        let whole = if self.whole.is_empty() {
            "0"
        } else {
            &self.whole
        };
        match self.fraction.as_str() {
            "" => format!("{sign}{whole}"),
            fraction => format!("{sign}{whole}.{fraction}"),
        }
    }
}

/// Texts of numbers: short and long, near each other and far apart, also out of range.
fn number_text() -> impl Strategy<Value = String> {
    let exponent = prop_oneof![Just(0), -3..4, -140..140];
    let digits = prop_oneof![
        "[0-9]{1,3}",
        "[0-9]{1,20}",
        "[0-9]{30,42}",
        "0{0,3}[1-9]0{0,40}"
    ];
    let fraction = prop_oneof![Just(String::new()), "[0-9]{1,3}", "[0-9]{0,30}"];
    (any::<bool>(), digits, fraction, exponent).prop_map(|(minus, digits, fraction, exponent)| {
        let sign = if minus { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        let exponent = match exponent {
            0 => String::new(),
            e => format!("E{e}"),
        };
        format!("{sign}{digits}{point}{fraction}{exponent}")
    })
}

fn allowed_text() -> impl Strategy<Value = String> {
    number_text().prop_filter("DynamoDB takes it", |text| Model::read(text).is_allowed())
}

fn number() -> impl Strategy<Value = Number> {
    number_text().prop_filter_map("out of range", |text| text.parse().ok())
}

fn value() -> impl Strategy<Value = Value> {
    let bytes = || vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::S),
        number().prop_map(Value::N),
        bytes().prop_map(Value::B),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Null),
        btree_set(any::<String>(), 1..4).prop_map(Value::Ss),
        btree_set(number(), 1..4).prop_map(Value::Ns),
        btree_set(bytes(), 1..4).prop_map(Value::Bs),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::L),
            btree_map(any::<String>(), inner, 0..4).prop_map(Value::M),
        ]
    })
}

fn an_item() -> impl Strategy<Value = Item> {
    btree_map(any::<String>(), value(), 0..6)
        .prop_map(|attributes: BTreeMap<String, Value>| attributes.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn a_number_is_accepted_if_dynamodb_accepts_it(text in number_text()) {
        let model = Model::read(&text);
        let parsed = text.parse::<Number>();
        prop_assert_eq!(parsed.is_ok(), model.is_allowed(), "{} {:?}", text, parsed);
    }

    #[test]
    fn a_number_prints_in_full_and_reads_back(text in allowed_text()) {
        let model = Model::read(&text);
        let number: Number = text.parse().unwrap();
        prop_assert_eq!(number.to_string(), model.print());
        prop_assert_eq!(number.to_string().parse::<Number>().unwrap(), number);
    }

    #[test]
    fn numbers_compare_by_value(a in allowed_text(), b in allowed_text()) {
        let (left, right) = (Model::read(&a), Model::read(&b));
        let (a, b): (Number, Number) = (a.parse().unwrap(), b.parse().unwrap());
        prop_assert_eq!(a.cmp(&b), left.compare(&right), "{} and {}", a, b);
        prop_assert_eq!(a == b, left == right);
    }

    #[test]
    fn numbers_that_differ_in_the_last_digit_differ(
        digits in "[1-9][0-9]{0,36}", last in 0u8..9, exponent in -100..80i32,
    ) {
        let smaller: Number = format!("{digits}{last}E{exponent}").parse().unwrap();
        let larger: Number = format!("{digits}{}E{exponent}", last + 1).parse().unwrap();
        prop_assert!(smaller < larger);
        prop_assert_ne!(smaller, larger);
    }

    #[test]
    fn integers_round_trip(n in any::<i64>(), m in any::<u64>()) {
        prop_assert_eq!(Number::from(n).to_i64(), Some(n));
        prop_assert_eq!(Number::from(m).to_u64(), Some(m));
        prop_assert_eq!(Number::from(n).to_string(), n.to_string());
        prop_assert_eq!(m.to_string().parse::<Number>().unwrap(), Number::from(m));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(250) })]

    #[test]
    fn items_round_trip_through_json(item in an_item()) {
        let json = item_to_json(&item);
        prop_assert_eq!(item_from_json(&json).unwrap(), item.clone());
        let text = json.to_string();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(item_from_json(&read).unwrap(), item);
    }
}
