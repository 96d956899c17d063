//! Sections that are copies of the plugin's.

use super::tests::{read, settings};

/// As the plugin's documentation has it, without another substitution.
#[test]
fn a_copy_with_settings_of_its_own_in_a_second_block() {
    let text = "pekko.persistence.journal.plugin = my-journal\n\
        pekko.persistence.snapshot-store.plugin = my-snapshots\n\
        my-journal = ${dynamodb-journal}\n\
        my-journal { journal-table = orders, journal-name = bank }\n\
        my-snapshots = ${dynamodb-snapshot-store}\n\
        my-snapshots { snapshot-table = states, journal-name = bank }\n";
    // Also if the section that is copied is in the file.
    for more in ["", "dynamodb-journal.sequence-shards = 20\n"] {
        let imported = read(format!("{text}{more}"));
        let layout = settings(&imported).layout;
        assert_eq!(layout.journal_table.unwrap().as_str(), "orders");
        assert_eq!(layout.snapshot_table.unwrap().as_str(), "states");
        assert_eq!(layout.journal_name, "bank");
        let shards = if more.is_empty() { 10 } else { 20 };
        assert_eq!(layout.sequence_shards, shards);
        assert_eq!(imported.not_taken, [], "{more}");
    }
}
