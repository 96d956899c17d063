//! Runs the examples and checks what they print.

use crate::example_run::{example, printed};

#[test]
fn a_bank_answers_over_http() {
    let answers = printed(example("service"));
    assert!(answers.starts_with("200 {\"balance\":10}\n200 {\"already\":1}\n"));
    let rejected = r#""detail":"insufficient funds. balance=`6`","retryable":false}"#;
    assert!(answers.contains(rejected), "{answers}");
    assert!(answers.ends_with("200 {\"balance\":6}\n"), "{answers}");
}
