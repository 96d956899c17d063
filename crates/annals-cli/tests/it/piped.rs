//! Values that are not given on the command line are read from standard input.

use crate::journal::{ANNALS, with_five_on};
use crate::run::{Annals, large_json};

/// Too large for an argument.
#[test]
fn states_and_values_are_read_from_standard_input() {
    with_five_on(ANNALS, |annals| {
        let large = large_json();
        let save = ["snapshot", "save", "Cart|1", "--at", "5"];
        let put = ["state", "put", "a", "--revision", "1"];
        let load = ["snapshot", "load", "Cart|1"];
        let get = ["state", "get", "a"];
        for (write, read, what) in [
            (&save[..], &load[..], "the state"),
            (&put[..], &get[..], "the value"),
        ] {
            for bad in ["", "{bad", "{} {}"] {
                let refused = annals.run_with(write, bad);
                refused.fails(2, &format!("{what} is not JSON; nothing was written"));
            }
            annals.run_with(write, format!("{large}\n")).ok();
            let found = annals.run(read).ok().out;
            assert!(found.contains(&large), "{what} is whole");
        }
    });
}

#[test]
#[cfg_attr(
    not(target_os = "linux"),
    ignore = "needs the script command of util-linux"
)]
fn does_not_wait_for_input_at_a_terminal() {
    let annals = Annals::embedded();
    for (args, says) in [
        (&["append", "Cart|1"][..], "no events"),
        (
            &["snapshot", "save", "Cart|1", "--at", "5"],
            "the state is missing",
        ),
        (
            &["state", "put", "a", "--revision", "1"],
            "the value is missing",
        ),
    ] {
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
        let said = annals.run_at_terminal(&quoted, "");
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.out.contains(says), "{said:?}");
    }
}
