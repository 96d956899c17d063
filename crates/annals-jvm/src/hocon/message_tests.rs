//! What messages say about a value that cannot be used, or that contradicts another.

use std::error::Error as _;

use super::tests::{read, reason, refused};

#[test]
fn a_table_name_that_cannot_be_used_is_reported_with_the_reason() {
    let text = "akka {}\ndynamodb-journal.journal-table = \"no spaces\"";
    let error = refused(text, "value=`no spaces`");
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("3 to 255"), "{cause}");
}

#[test]
fn a_contradiction_shows_both_values_and_its_consequence() {
    let imported = read(
        "akka {}\ndynamodb-journal { endpoint = \"http://a:1\", journal-name = orders }\n\
         dynamodb-snapshot-store { endpoint = \"http://me:Tops@b:1\", journal-name = journal }\n\
         dynamodb-read-journal = ${dynamodb-journal} { sequence-shards = 20 }\n",
    );
    let name = reason(&imported, "dynamodb-snapshot-store.journal-name").unwrap();
    assert_eq!(
        name,
        "contradicts dynamodb-journal.journal-name: `journal` here, `orders` there; there is one setting for both, and that one is used, so snapshots that are stored under `journal` are not found"
    );
    let shards = reason(&imported, "dynamodb-read-journal.sequence-shards").unwrap();
    let values = ": `20` here, `10` (the plugin's default) there;";
    assert!(shards.contains(values), "{shards}");
    let endpoint = reason(&imported, "dynamodb-snapshot-store.endpoint").unwrap();
    assert!(endpoint.contains("`http://a:1` there"), "{endpoint}");
    assert!(!endpoint.contains("Tops"), "{endpoint}");
}
