//! Numbers: text, order and size, against DynamoDB's published and measured behaviour.

use super::*;

#[track_caller]
fn check(text: &str, want: &str, size: usize) {
    let number: Number = text.parse().unwrap();
    assert_eq!(number.to_string(), want, "{text}");
    assert_eq!(number.size(), size, "size of {text}");
    assert_eq!(want.parse::<Number>().unwrap(), number, "{text}");
}

#[test]
fn text_is_normalised_and_sized_by_significant_digits() {
    check("0", "0", 1);
    check("-0", "0", 1);
    check("0.000", "0", 1);
    check("0042", "42", 2);
    check("100", "100", 2);
    check("1010", "1010", 3);
    check("12345", "12345", 4);
    check("-42", "-42", 3);
    check("1.200", "1.2", 3);
    check("100.5", "100.5", 4);
    check("0.15", "0.15", 2);
    check("-0.15", "-0.15", 3);
    check("3.14159", "3.14159", 5);
    check("1e3", "1000", 2);
    check("1E-3", "0.001", 2);
    check("+7", "7", 2);
    check(".5", "0.5", 2);
    check(
        "12345678901234567890123456789012345678",
        "12345678901234567890123456789012345678",
        20,
    );
    check("18446744073709551615", "18446744073709551615", 11);
}

#[test]
fn numbers_that_dynamodb_rejects_are_rejected() {
    for text in [
        "",
        "-",
        ".",
        "1e",
        "abc",
        "1 ",
        "0x1",
        "NaN",
        "1e126",
        "1e-131",
        "123456789012345678901234567890123456789",
        "1e99999999",
        "1e-32768",
    ] {
        assert!(text.parse::<Number>().is_err(), "{text}");
    }
    assert!("1e-130".parse::<Number>().is_ok());
    assert!("9.99e125".parse::<Number>().is_ok());
}

#[test]
fn order_is_numeric() {
    let ascending = [
        "-9.9e125", "-1000", "-999.5", "-1", "-0.5", "-1e-130", "0", "1e-130", "0.5", "0.51", "1",
        "1.5", "2", "9", "10", "11", "99", "100", "9.9e125",
    ];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            let (left, right): (Number, Number) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(left.cmp(&right), i.cmp(&j), "{a} and {b}");
        }
    }
}

#[test]
fn integers_convert_both_ways() {
    for n in [0, 1, 10, 99, 100, u64::MAX] {
        assert_eq!(Number::from(n).to_u64(), Some(n));
        assert_eq!(Number::from(n).to_string(), n.to_string());
    }
    for n in [i64::MIN, -10, -1, 0, 1, i64::MAX] {
        assert_eq!(Number::from(n).to_i64(), Some(n));
    }
    assert_eq!("1.5".parse::<Number>().unwrap().to_u64(), None);
    assert_eq!("-1".parse::<Number>().unwrap().to_u64(), None);
    assert_eq!("1e100".parse::<Number>().unwrap().to_u64(), None);
}
