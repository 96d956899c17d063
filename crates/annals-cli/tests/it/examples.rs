//! The examples are run, and print what they say.

use crate::example_run::{example, printed};

#[test]
fn a_bank_answers_over_http() {
    let answers = printed(example("service"));
    let refused = "422 {\"error\":\"there are only 6\"}\n200 {\"balance\":6}\n";
    assert!(answers.starts_with("200 {\"balance\":10}\n200 {\"already\":1}\n"));
    assert!(answers.ends_with(refused), "{answers}");
}
