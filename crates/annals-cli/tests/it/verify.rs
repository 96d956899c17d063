//! `annals verify`: what is wrong is printed, a line each, and told by the exit code.

use crate::run::{Annals, on_every_store};

const TABLE: [&str; 2] = ["annals-journal", "akka-persistence"];

/// A journal of five events on a layout.
fn with_five(annals: &Annals, layout: &str) {
    annals.run(&["--layout", layout, "tables", "create"]).ok();
    for n in 1..=5 {
        let event = format!("{{\"n\":{n}}}");
        annals
            .run(&[
                "--layout",
                layout,
                "append",
                "Cart|1",
                "--manifest",
                "Added",
                &event,
            ])
            .ok();
    }
}

#[test]
fn a_sound_journal_has_nothing_to_tell() {
    on_every_store(|annals| {
        for layout in ["annals", "akka"] {
            with_five(annals, layout);
            for args in [
                &["verify"][..],
                &["verify", "Cart|1"],
                &["verify", "--repair"],
            ] {
                let said = annals.run(&[&["--layout", layout], args].concat()).ok();
                assert_eq!(said.out, "");
            }
            annals.run(&["--layout", layout, "verify", "nobody"]).ok();
        }
    });
}

#[test]
fn a_lost_event_is_told_with_exit_code_5() {
    for (layout, table) in ["annals", "akka"].into_iter().zip(TABLE) {
        let annals = Annals::embedded();
        with_five(&annals, layout);
        let all = annals.run(&["export", table]).ok().out;
        // The third event: number 3 on both layouts.
        let is_third = |line: &&str| line.contains("{\"N\":\"3\"}");
        let left: Vec<&str> = all.lines().filter(|line| !is_third(line)).collect();
        assert_eq!(left.len() + 1, all.lines().count());
        let damaged = Annals::embedded();
        damaged.run(&["--layout", layout, "tables", "create"]).ok();
        damaged.run_with(&["import", table], left.join("\n")).ok();
        for args in [&["verify"][..], &["verify", "Cart|1", "--repair"]] {
            let said = damaged.run(&[&["--layout", layout], args].concat());
            assert_eq!(said.code, Some(5), "{said:?}");
            let lines = said.json();
            assert_eq!(lines.len(), 1, "{said:?}");
            assert_eq!(lines[0]["problem"], "gap");
            assert_eq!((&lines[0]["from"], &lines[0]["to"]), (&3.into(), &3.into()));
            assert_eq!(lines[0]["remedy"], "left");
        }
        damaged
            .run(&["--layout", layout, "replay", "Cart|1"])
            .fails(5, "missing");
    }
}
