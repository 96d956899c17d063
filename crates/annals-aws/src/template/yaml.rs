//! JSON as YAML, in blocks. Pure.
//!
//! Promises: what a parser of YAML 1.1 or 1.2 reads is the same value. A text that could be taken
//! for anything else is quoted as in JSON, which YAML reads.

use serde_json::Value as Json;

pub(super) fn of(json: &Json) -> String {
    let mut text = String::new();
    write(json, 0, &mut text);
    text
}

/// Writes what stands at a depth, beginning and ending with a line.
fn write(json: &Json, depth: usize, into: &mut String) {
    let indent = "  ".repeat(depth);
    match json {
        Json::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                into.push_str(&format!("{indent}{}:", scalar(&Json::from(name.as_str()))));
                behind(member, depth + 1, into);
            }
        }
        Json::Array(members) if !members.is_empty() => {
            for member in members {
                into.push_str(&format!("{indent}-"));
                behind(member, depth + 1, into);
            }
        }
        scalar_or_empty => into.push_str(&format!("{indent}{}\n", scalar(scalar_or_empty))),
    }
}

/// Writes what stands behind a colon or a dash.
fn behind(json: &Json, depth: usize, into: &mut String) {
    let is_block = match json {
        Json::Object(members) => !members.is_empty(),
        Json::Array(members) => !members.is_empty(),
        _ => false,
    };
    if is_block {
        into.push('\n');
        write(json, depth, into);
    } else {
        into.push_str(&format!(" {}\n", scalar(json)));
    }
}

fn scalar(json: &Json) -> String {
    match json {
        Json::String(text) if is_plain(text) => text.clone(),
        // Quoted texts, numbers, truths, null and empty lists are the same in both.
        other => other.to_string(),
    }
}

/// Whether a bare text is a text to every parser.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 11] = [
        "true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf",
    ];
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    // A colon is one's own only where no blank follows.
    let is_usual = text.split("::").all(|part| part.chars().all(is_usual));
    let ends = text.ends_with(|c: char| c.is_ascii_alphanumeric());
    let word = text.to_ascii_lowercase();
    begins && ends && is_usual && !WORDS.contains(&word.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_are_indented_and_odd_texts_quoted() {
        let json = json!({
            "Type": "AWS::DynamoDB::Table",
            "Version": "2012-10-17",
            "Fn::GetAtt": ["Table", "Arn"],
            "Empty": [],
            "Text": "a: b # c",
            "On": "on",
            "List": [{"a": 1, "b": [true, null]}, "x"],
        });
        let want = "\
Type: AWS::DynamoDB::Table
Version: \"2012-10-17\"
Fn::GetAtt:
  - Table
  - Arn
Empty: []
Text: \"a: b # c\"
\"On\": \"on\"
List:
  -
    a: 1
    b:
      - true
      - null
  - x
";
        assert_eq!(of(&json), want);
    }

    #[test]
    fn what_looks_like_something_else_is_quoted() {
        for text in [
            "",
            "1",
            "1e3",
            "-",
            "~",
            "a b",
            "No",
            "a:",
            ": a",
            "é",
            "2012-01-01",
            "a\n",
        ] {
            assert!(!is_plain(text), "{text:?}");
        }
        for text in [
            "a",
            "AWS::IAM::Role",
            "arm64",
            "provided.al2023",
            "dynamo-db_1",
        ] {
            assert!(is_plain(text), "{text:?}");
        }
    }
}
