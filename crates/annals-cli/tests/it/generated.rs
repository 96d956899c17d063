//! Completions and manual pages.

use crate::run::Annals;

#[test]
fn completions_know_the_commands() {
    let annals = Annals::embedded();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = annals.run(&["completions", shell]).ok().out;
        for word in ["playback", "--journal-table"] {
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    annals
        .run(&["completions", "cmd"])
        .fails(2, "possible values: bash");
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let annals = Annals::embedded();
    let page = annals.run(&["man"]).ok().out;
    assert!(page.contains(".TH annals 1"), "{page}");
    annals.run(&["man", "--dir", "pages"]).ok();
    let pages = annals.folder().join("pages");
    for name in ["annals.1", "annals-append.1", "annals-log-playback.1"] {
        let page = std::fs::read_to_string(pages.join(name)).unwrap();
        assert!(page.contains("SYNOPSIS"), "{name}");
    }
    let page = std::fs::read_to_string(pages.join("annals-append.1")).unwrap();
    assert!(page.contains("Examples:"), "{page}");
    // A file cannot be a folder.
    annals.write("file", "");
    annals
        .run(&["man", "--dir", "file/pages"])
        .fails(2, "cannot write the manual");
}
