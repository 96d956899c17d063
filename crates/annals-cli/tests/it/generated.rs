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
    // Shells offer the values, too.
    let values = [
        ("--layout", "annals akka j5ik2o"),
        ("--codec", "json text long int boolean bytes cbor protobuf"),
        ("--begin", "trim-horizon latest"),
    ];
    let bash = annals.run(&["completions", "bash"]).ok().out;
    let zsh = annals.run(&["completions", "zsh"]).ok().out;
    for (option, values) in values {
        let (_, of_option) = bash.split_once(&format!("{option})\n")).unwrap();
        let offers = format!("COMPREPLY=($(compgen -W \"{values}\" -- \"${{cur}}\"))");
        let first = of_option.lines().next().unwrap();
        assert_eq!(first.trim(), offers, "{option}");
        let of_option = zsh.lines().find(|line| line.contains(option)).unwrap();
        assert!(of_option.contains(&format!(":({values})'")), "{of_option}");
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
    // Every page has the usual sections, in the usual order, each once.
    for page in std::fs::read_dir(&pages).unwrap() {
        let path = page.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        let headings = page.lines().filter_map(|line| line.strip_prefix(".SH "));
        let headings: Vec<_> = headings.collect();
        let ending = ["\"EXIT STATUS\"", "ENVIRONMENT", "EXAMPLES", "VERSION"];
        assert!(headings.ends_with(&ending), "{path:?}: {headings:?}");
        assert!(!headings.contains(&"EXTRA"), "{path:?}: {headings:?}");
        assert_eq!(page.matches(".TH ").count(), 1, "{path:?}");
        assert_eq!(page.matches(".el .ds Aq").count(), 1, "{path:?}");
        assert!(!page.contains("default: ]"), "{path:?}");
        let (_, variables) = page.split_once(".SH ENVIRONMENT\n").unwrap();
        let (variables, _) = variables.split_once(".SH ").unwrap();
        for name in ["ANNALS_DATA", "ANNALS_REGION", "ANNALS_TOKEN", "AWS_REGION"] {
            assert!(variables.contains(name), "{path:?}: {variables}");
        }
    }
    // The synopsis has the command's own options; the global ones would hide them.
    let page = std::fs::read_to_string(pages.join("annals-snapshot-save.1")).unwrap();
    let (_, synopsis) = page.split_once(".SH SYNOPSIS\n").unwrap();
    let (synopsis, _) = synopsis.split_once(".SH ").unwrap();
    let synopsis = synopsis.replace("\\fB", "").replace("\\fI", "");
    let synopsis = synopsis.replace("\\fR", "").replace("\\-", "-");
    assert_eq!(
        synopsis.split_whitespace().collect::<Vec<_>>().join(" "),
        "annals snapshot save [--codec] [--manifest] [-h|--help] [-V|--version] <--at> <PERSISTENCE_ID> [STATE] [GLOBAL OPTIONS]"
    );
    assert!(page.contains(".SH \"GLOBAL OPTIONS\"\n"), "{page}");
    let page = std::fs::read_to_string(pages.join("annals-append.1")).unwrap();
    let (_, examples) = page.split_once(".SH EXAMPLES\n").unwrap();
    let first = "annals append \\*(AqCart|1\\*(Aq";
    assert!(
        examples.lines().nth(1).unwrap().starts_with(first),
        "{examples}"
    );
    let code = "\\fB3\\fR\nConflict: another writer was first.";
    assert!(page.contains(code), "{page}");
    let page = std::fs::read_to_string(pages.join("annals-log-ingest.1")).unwrap();
    assert!(page.contains("A retried line is recognised"), "{page}");
    // A file cannot be a folder.
    annals.write("file", "");
    annals
        .run(&["man", "--dir", "file/pages"])
        .fails(2, "cannot write the manual");
}
