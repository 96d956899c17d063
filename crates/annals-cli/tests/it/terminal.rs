//! What people see: rows under a header at a terminal, and numbers with the right noun. Piped, the same
//! results are JSON lines.

use crate::run::Annals;

/// The lines at a terminal without colours.
#[track_caller]
fn shown(annals: &Annals, args: &[&str]) -> Vec<String> {
    let shown = annals.run_at_terminal(args, "");
    assert!(!shown.out.contains('\u{1b}'), "{shown:?}");
    let lines = shown.out.lines();
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// A line as its words: times differ, and with them nothing else.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn lists_at_a_terminal_have_a_header_and_aligned_columns() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    annals.run(&["tables", "create", "--log"]).ok();
    annals.run(&["append", "a", "1"]).ok();
    for (at, manifest) in [("1", "CartState"), ("12", "")] {
        let save = ["snapshot", "save", "a", "--at", at, "--manifest", manifest];
        annals.run(&[&save[..], &["{}"]].concat());
    }
    let put = ["state", "put", "a", "--revision", "1", "--tag", "t"];
    annals.run(&[&put[..], &["[1]"]].concat()).ok();

    let snapshots = shown(&annals, &["snapshot", "list", "a"]);
    let [header, newest, oldest] = &snapshots[..] else {
        panic!("{snapshots:?}");
    };
    assert_eq!(words(header), ["NUMBER", "TIME", "TYPE", "STATE"]);
    for (name, cells) in [("NUMBER", ["12", "1"]), ("STATE", ["{}", "{}"])] {
        let at = header.find(name).unwrap();
        assert!(newest[at..].starts_with(cells[0]), "{snapshots:?}");
        assert!(oldest[at..].starts_with(cells[1]), "{snapshots:?}");
    }
    let at = header.find("TYPE").unwrap();
    assert!(oldest[at..].starts_with("CartState"), "{snapshots:?}");
    let loaded = shown(&annals, &["snapshot", "load", "a", "--max-seq", "1"]);
    assert_eq!(words(&loaded[0]), ["NUMBER", "TIME", "TYPE", "STATE"]);

    let state = shown(&annals, &["state", "get", "a"]);
    assert_eq!(words(&state[0]), ["REVISION", "TIME", "TAG", "VALUE"]);
    let [revision, _, tag, value] = words(&state[1])[..] else {
        panic!("{state:?}");
    };
    assert_eq!([revision, tag, value], ["1", "t", "[1]"]);

    let stats = shown(&annals, &["log", "stats"]);
    assert_eq!(stats[0], "STATISTIC              VALUE");
    assert_eq!(stats[1], "records in the buffer  0");
    assert_eq!(shown(&annals, &["ids"]), ["PERSISTENCE ID", "a"]);
    let tables = shown(&annals, &["tables", "check"]);
    assert_eq!(tables[0], "TABLE            STATUS   DETAILS");
    assert_eq!(tables[1], "annals-journal   ok");
    assert_eq!(tables[2], "annals-snapshot  ok");
    let tables = shown(&annals, &["tables", "create"]);
    assert_eq!(tables[0], "TABLE            STATUS");
    assert_eq!(tables[1], "annals-journal   exists");
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn binary_payloads_at_a_terminal_have_their_codec() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    let append = |codec: &str, event: &str| {
        let flags = ["--tag", "red", "--tag", "blue", "--metadata", "by=alice"];
        let append = ["append", "a", "--codec", codec, event];
        annals.run(&[&append[..], &flags].concat()).ok();
    };
    append("protobuf", "AAEC");
    append("akka:17", "AAEC");
    append("text", "AAEC");
    append("json", "1");
    let lines = shown(&annals, &["replay", "a"]);
    let payloads: Vec<_> = lines
        .iter()
        .map(|line| words(line).pop().unwrap())
        .collect();
    let want = ["PAYLOAD", "protobuf:AAEC", "akka:17:AAEC", "AAEC", "1"];
    assert_eq!(payloads, want, "{lines:?}");

    let pretty = shown(&annals, &["replay", "a", "--pretty", "--max", "1"]);
    let details = [
        "    codec: protobuf",
        "    tags: red, blue",
        "    metadata: by=alice",
        "    AAEC",
    ];
    assert_eq!(pretty[2..], details, "{pretty:?}");
    let pretty = shown(&annals, &["replay", "a", "--pretty", "--from", "4"]);
    let details = ["    tags: red, blue", "    metadata: by=alice", "    1"];
    assert_eq!(pretty[2..], details, "{pretty:?}");

    let ids = ["--causation", "request-7", "--correlation", "order-1"];
    let append = ["append", "a", "5"];
    annals.run(&[&append[..], &ids].concat()).ok();
    let pretty = shown(&annals, &["replay", "a", "--pretty", "--from", "5"]);
    let details = [
        "    causation id: request-7",
        "    correlation id: order-1",
        "    5",
    ];
    assert_eq!(pretty[2..], details, "{pretty:?}");

    let save = ["snapshot", "save", "a", "--at", "4", "--codec", "cbor"];
    annals.run(&[&save[..], &["oA=="]].concat()).ok();
    let lines = shown(&annals, &["snapshot", "list", "a"]);
    assert_eq!(words(&lines[1]).pop(), Some("cbor:oA=="), "{lines:?}");
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn findings_at_a_terminal_have_a_header_and_name_the_whole_command() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    for id in ["a", "a-longer-id"] {
        annals.run(&["append", id, "1"]).ok();
        annals.run(&["snapshot", "save", id, "--at", "9", "{}"]);
    }
    let shown = annals.run_at_terminal(&["verify"], "").out;
    // Without the progress, which is shown meanwhile.
    let lines = shown
        .lines()
        .filter_map(|line| line.rsplit("\u{1b}[2K").next());
    let found: Vec<&str> = lines.collect();
    assert!(
        found[0].starts_with("PERSISTENCE ID  OF        PROBLEM     NUMBERS"),
        "{found:?}"
    );
    let at = found[0].find("PROBLEM").unwrap();
    for (line, id) in found[1..].iter().zip(["a", "a-longer-id"]) {
        assert!(line[at..].starts_with("beyond-end"), "{found:?}");
        let command = format!("`annals snapshot delete {id} --min-seq 9`");
        assert!(line.contains(&command), "{found:?}");
    }
    assert_eq!(found[3].trim_end(), "2 found: 0 repaired, 2 left");
}

#[test]
fn snapshots_and_values_are_printed_on_lines_of_their_own() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    annals.run(&["append", "a", "1"]).ok();
    annals
        .run(&["snapshot", "save", "a", "--at", "1", r#"{"total":10}"#])
        .ok();
    annals
        .run(&["state", "put", "a", "--revision", "1", r#"{"total":10}"#])
        .ok();
    for args in [
        &["snapshot", "load", "a", "--pretty"][..],
        &["state", "get", "a", "--pretty"],
    ] {
        let shown = annals.run(args).ok().out;
        let (_, value) = shown.split_once("Z\n").unwrap();
        assert_eq!(value, "    {\n      \"total\": 10\n    }\n", "{shown}");
    }
    let put = ["state", "put", "a", "--revision", "2", "--codec", "bytes"];
    annals.run(&[&put[..], &["AAEC"]].concat()).ok();
    let shown = annals.run(&["state", "get", "a", "--pretty"]).ok().out;
    assert!(shown.ends_with("    codec: bytes\n    AAEC\n"), "{shown}");
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn an_id_without_a_type_is_noted_at_a_terminal() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    annals.run(&["tables", "create"]).ok();
    let noted = shown(&annals, &["append", "Copy", "{}"]);
    assert!(
        noted[0].contains("ids of entities are TYPE|ID"),
        "{noted:?}"
    );
    // A pipe gets nothing.
    annals.run(&["append", "Copy", "{}"]).ok();
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn a_feed_without_events_says_so_at_a_terminal() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    annals.run(&["tables", "create"]).ok();
    assert_eq!(shown(&annals, &["feed"]), ["annals: there are no events"]);
    annals.run(&["append", "Cart|1", "1"]).ok();
    let none = shown(&annals, &["feed", "--category", "cart", "--tag", "t"]);
    assert_eq!(none, ["annals: no event matches. category=`cart`, tag=`t`"]);
    // A pipe gets nothing.
    annals.run(&["feed", "--category", "cart"]).ok();
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn dead_letters_at_a_terminal_have_a_header() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    annals.run(&["tables", "create", "--log"]).ok();
    // One event id with two contents.
    for n in 1..=2 {
        let line = format!(r#"{{"event_id":"a","time":1000,"payload":{n}}}"#);
        annals.run_with(&["log", "ingest"], line).ok();
        annals.run(&["log", "sweep"]);
    }
    let letters = shown(&annals, &["log", "dead-letters"]);
    assert_eq!(words(&letters[0]), ["NAME", "REASON"], "{letters:?}");
    assert_eq!(letters.len(), 2, "{letters:?}");
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn lists_at_a_terminal_have_colours_unless_no_color_is_set() {
    let annals = Annals::embedded();
    annals.run(&["append", "a", "1"]).ok();
    annals
        .run(&["state", "put", "a", "--revision", "1", "1"])
        .ok();
    for args in [&["state", "get", "a"][..], &["ids"], &["tables", "check"]] {
        let shown = annals.run_at_terminal(args, "");
        assert!(shown.out.contains('\u{1b}'), "{shown:?}");
    }
}

/// An empty screen would leave open whether the id or the prefix is mistyped. Scripts get an empty list.
#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn empty_lists_at_a_terminal_say_so() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    annals.run(&["tables", "create"]).ok();
    let is_empty = |args: &[&str], note: &str| {
        assert_eq!(shown(&annals, args), [note]);
        assert_eq!(annals.run(args).ok().out, "");
    };
    is_empty(&["ids"], "annals: there are no ids");
    annals.run(&["append", "a", "1"]).ok();
    annals
        .run(&["snapshot", "save", "a", "--at", "1", "{}"])
        .ok();
    let ids = ["ids", "--prefix", "b"];
    is_empty(&ids, "annals: no id has this prefix. prefix=`b`");
    let list = ["snapshot", "list", "b"];
    is_empty(&list, "annals: there are no snapshots. id=`b`");
    let list = ["snapshot", "list", "a", "--min-seq", "2"];
    let note = "annals: there are no snapshots within these bounds. id=`a`";
    is_empty(&list, note);
    assert_eq!(shown(&annals, &["ids", "--prefix", "a"]).len(), 2);
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn one_thing_is_not_plural() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    annals.run(&["append", "a", "1"]).ok();
    let pumped = shown(&annals, &["log", "pump", "--journal"]);
    let text = "1 event of 1 id pumped, 0 without payload, 0 skipped, 0 ids incomplete";
    assert_eq!(pumped.last().unwrap(), text);
    annals.run(&["log", "sweep"]);
    let linked = shown(&annals, &["log", "link"]);
    let text = "1 slot with events, 0 links written, ";
    assert!(linked.last().unwrap().starts_with(text), "{linked:?}");
    let item = annals.run(&["export", "annals-journal"]).ok().out;
    let item = item.lines().next().unwrap();
    annals.write("item.jsonl", item);
    annals.run(&["tables", "drop", "--yes"]).ok();
    annals.run(&["tables", "create"]).ok();
    let imported = shown(&annals, &["import", "annals-journal", "item.jsonl"]);
    let text = "1 item imported, 0 unchanged, 0 differ";
    assert_eq!(imported.last().unwrap(), text);
}

/// This folder is refused as damaged, after the conversion has begun.
#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn the_conversion_of_a_store_is_reported_to_those_who_wait_at_a_terminal() {
    let annals = Annals::embedded().with_variable("NO_COLOR", "1");
    let folder = annals.folder().join("old");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("FORMAT"), "annals embedded format 1\n").unwrap();
    let says = "INFO converting the store to format 2";
    let args = ["tables", "create", "--data", "old"];
    let shown = annals.run_at_terminal(&args, "");
    assert_eq!(shown.code, Some(5), "{shown:?}");
    assert!(shown.out.contains(says), "{shown:?}");
    let piped = annals.run(&args);
    assert_eq!(piped.code, Some(5), "{piped:?}");
    assert!(!piped.err.contains(says), "{piped:?}");
}
