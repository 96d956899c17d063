//! The examples in every command's help.
//!
//! Guarantees (tests): every command has some, and each of them parses.

use clap::Command;

/// By command, without `annals`.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "",
        r#"annals append 'Cart|1' '{"opened":true}'
annals replay 'Cart|1'
annals serve
annals --server http://127.0.0.1:7070 ids"#,
    ),
    (
        "snapshot",
        r#"annals snapshot save 'Cart|1' --at 3 '{"total":10}'
annals snapshot load 'Cart|1'"#,
    ),
    (
        "state",
        r#"annals state put cart-1 --revision 1 '{"items":2}'
annals state get cart-1"#,
    ),
    (
        "log",
        "annals log ingest <lines.jsonl
annals log sweep
annals log playback --start 2026-11-01T00:00:00Z",
    ),
    (
        "projection",
        "annals projection list
annals projection status open-carts",
    ),
    (
        "tables",
        "annals tables create --log
annals tables check",
    ),
    (
        "config",
        "annals config show
annals config import application.conf >annals.toml",
    ),
    ("bench", "annals bench store"),
    (
        "append",
        r#"annals append 'Cart|1' '{"opened":true}' '{"added":"book"}'
annals append 'Cart|1' '{"paid":10}' --expect 2 --manifest Paid
annals append 'Cart|1' <events.jsonl
annals append --bulk appends.jsonl"#,
    ),
    (
        "replay",
        "annals replay 'Cart|1'
annals replay 'Cart|1' --from 10 --max 5 --pretty
annals replay 'Cart|1' --dynamodb --layout akka --journal-table pekko-persistence",
    ),
    (
        "feed",
        "annals feed
annals feed --category Cart --tag paid --max 10
annals feed --after 3735928559.0:912 --server http://127.0.0.1:7070 --follow",
    ),
    (
        "group",
        "annals group create mailer --category Cart
annals group next mailer --max 1
annals group ack mailer 0-912-00c0ffee00c0ffee",
    ),
    ("group list", "annals group list"),
    (
        "group create",
        "annals group create mailer --category Cart --start now
annals group create mailer --ack-ms 60000 --retries 3",
    ),
    ("group status", "annals group status mailer"),
    (
        "group next",
        "annals group next mailer --max 5
annals group next mailer --wait 30000 --server http://127.0.0.1:7070",
    ),
    (
        "group ack",
        "annals group ack mailer 0-912-00c0ffee00c0ffee",
    ),
    (
        "group nack",
        "annals group nack mailer 0-912-00c0ffee00c0ffee --reason 'no such customer'",
    ),
    ("group dead-letters", "annals group dead-letters mailer"),
    (
        "group retry",
        "annals group retry mailer
annals group retry mailer 'Cart|1'",
    ),
    ("group discard", "annals group discard mailer 'Cart|1'"),
    ("group delete", "annals group delete mailer"),
    ("highest", "annals highest 'Cart|1'"),
    ("ids", "annals ids --prefix 'Cart|'"),
    (
        "delete",
        "annals delete 'Cart|1' --to 10
annals delete 'Cart|1' --purge",
    ),
    (
        "snapshot save",
        r#"annals snapshot save 'Cart|1' --at 3 '{"total":10}'"#,
    ),
    (
        "snapshot load",
        "annals snapshot load 'Cart|1'
annals snapshot load 'Cart|1' --max-seq 100",
    ),
    ("snapshot list", "annals snapshot list 'Cart|1'"),
    (
        "snapshot delete",
        "annals snapshot delete 'Cart|1' --at 3
annals snapshot delete 'Cart|1' --max-time 2026-01-31T12:00:00Z",
    ),
    ("state get", "annals state get cart-1"),
    (
        "state put",
        r#"annals state put cart-1 --revision 1 '{"items":2}'
annals state put cart-1 --revision 2 <value.json"#,
    ),
    ("state delete", "annals state delete cart-1"),
    ("log ingest", "annals log ingest <lines.jsonl"),
    (
        "log pump",
        "annals log pump --journal --every 60s
annals log pump --kinesis orders",
    ),
    ("log sweep", "annals log sweep"),
    ("log link", "annals log link"),
    ("log stats", "annals log stats"),
    (
        "log horizon",
        "annals log horizon
annals log horizon --set-back 2026-11-15T00:00:00Z",
    ),
    ("log dead-letters", "annals log dead-letters"),
    (
        "log playback",
        "annals log playback --start 2026-11-15T00:00:00Z --end 2026-11-16T00:00:00Z
annals log playback --start 2026-11-15T00:00:00Z --speed 60 --to kinesis:replayed
annals log playback --start 2026-11-15T00:00:00Z --follow",
    ),
    (
        "projection list",
        "annals projection list
annals projection list --server http://127.0.0.1:7070 --json",
    ),
    ("projection status", "annals projection status open-carts"),
    ("projection pause", "annals projection pause open-carts"),
    ("projection resume", "annals projection resume open-carts"),
    (
        "projection rebuild",
        "annals projection rebuild open-carts
annals projection switch open-carts",
    ),
    ("projection switch", "annals projection switch open-carts"),
    (
        "projection dead-letters",
        "annals projection dead-letters mails
annals projection dead-letters mails --retry
annals projection dead-letters mails --discard --id 'Cart|1'",
    ),
    (
        "tables create",
        "annals tables create
annals tables create --log --dynamodb --endpoint http://127.0.0.1:8000",
    ),
    (
        "tables check",
        "annals tables check --layout akka --dynamodb",
    ),
    ("tables drop", "annals tables drop --yes"),
    (
        "tables template",
        "annals tables template --without-log >template.json",
    ),
    ("export", "annals export annals-journal >journal.jsonl"),
    ("import", "annals import annals-journal journal.jsonl"),
    (
        "copy",
        "annals copy --from layout=akka --to layout=annals
annals copy --from akka.toml --to annals.toml --prefix 'Cart|'",
    ),
    (
        "backup",
        "annals backup /mnt/backup/annals
annals backup /mnt/backup/annals --verify",
    ),
    (
        "restore",
        "annals restore /mnt/backup/annals --data restored
annals restore /mnt/backup/annals --data restored --to-time 2026-11-15T12:00:00Z",
    ),
    (
        "verify",
        "annals verify
annals verify 'Cart|1' --repair",
    ),
    ("config show", "annals config show --layout akka"),
    (
        "config import",
        "annals config import application.conf >annals.toml",
    ),
    (
        "serve",
        "annals serve
annals serve --listen 0.0.0.0:7070 --token-file token",
    ),
    ("bench store", "annals bench store"),
    ("bench journal", "annals bench journal"),
    ("bench entities", "annals bench entities"),
    ("bench log", "annals bench log"),
    (
        "bench appends",
        "annals bench appends --writers 64 --seconds 5",
    ),
    (
        "completions",
        "annals completions bash >~/.local/share/bash-completion/completions/annals",
    ),
    (
        "man",
        "annals man | man -l -
annals man --dir ~/.local/share/man/man1",
    ),
];

/// The examples of a command, a line each.
pub(crate) fn of(path: &str) -> impl Iterator<Item = &'static str> {
    let found = EXAMPLES.iter().find(|(other, _)| *other == path);
    found.map_or("", |(_, examples)| *examples).lines()
}

/// Adds the examples to the help of all commands.
pub(crate) fn add(mut command: Command) -> Command {
    for (path, examples) in EXAMPLES {
        command = add_at(command, path.split_whitespace(), examples);
    }
    command
}

fn add_at<'a>(
    command: Command,
    mut path: impl Iterator<Item = &'a str>,
    examples: &str,
) -> Command {
    match path.next() {
        Some(name) => command.mut_subcommand(name, |inner| add_at(inner, path, examples)),
        None => {
            let before = command.get_after_help().map(|help| format!("{help}\n\n"));
            let lines = examples.lines().map(|line| format!("  {line}"));
            let lines: Vec<String> = lines.collect();
            let help = before.unwrap_or_default() + "Examples:\n" + &lines.join("\n");
            command.after_help(help)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;

    /// The paths of all commands.
    fn paths(command: &Command, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            paths(inner, path.trim(), all);
        }
    }

    #[test]
    fn every_command_has_examples() {
        let mut all = Vec::new();
        paths(&Args::full_command(), "", &mut all);
        all.sort();
        let mut with: Vec<_> = EXAMPLES
            .iter()
            .map(|(path, _)| (*path).to_owned())
            .collect();
        with.sort();
        assert_eq!(all, with);
    }

    #[test]
    fn every_example_parses() {
        for line in EXAMPLES.iter().flat_map(|(_, lines)| lines.lines()) {
            // Redirections and pipes are the shell's.
            let words = shlex::split(line).unwrap();
            let words: Vec<_> = words.into_iter().take_while(|word| word != "|").collect();
            let words = words.iter().filter(|word| !word.starts_with(['<', '>']));
            let parsed = Args::full_command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
