//! `annals man`: manual pages.
//!
//! Guarantees: every page has the sections EXIT STATUS, ENVIRONMENT and EXAMPLES.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use annals::{Error, Result};
use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::Args;
use crate::examples;
use crate::output::{EXIT_CODES, print_line};

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let failed = |cause| Error::invalid("cannot write the manual").because(cause);
        // The examples have a section of their own.
        let command = Args::command().disable_help_subcommand(true);
        let mut command = without_empty_defaults(command);
        command.build();
        match &self.dir {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(failed)?;
                write_all(&command, "", folder).map_err(failed)?;
            }
            None => print_line(page(&command, "").map_err(failed)?.trim_end())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the pages of a command and of those below it.
fn write_all(command: &Command, path: &str, folder: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        let path = format!("{path} {}", inner.get_name());
        write_all(inner, path.trim(), folder)?;
    }
    let name = Page::new(command.clone()).get_filename();
    std::fs::write(folder.join(name), page(command, path)?)
}

/// The page of a command, whose path has no `annals`.
fn page(command: &Command, path: &str) -> io::Result<String> {
    let version = command.get_version().unwrap_or_default();
    let page = Page::new(command.clone()).source(format!("annals {version}"));
    let mut text = Roff::new().render();
    let mut add = |render: &dyn Fn(&mut dyn Write) -> io::Result<()>| section(render, &mut text);
    add(&|out| page.render_title(out))?;
    add(&|out| page.render_name_section(out))?;
    add(&|out| without_global_options(command).render_synopsis_section(out))?;
    add(&|out| global_options().to_writer(out))?;
    add(&|out| page.render_description_section(out))?;
    // The exit codes in the help of `annals` have a section of their own.
    if !path.is_empty() {
        add(&|out| more_description(command).to_writer(out))?;
    }
    add(&|out| page.render_options_section(out))?;
    if command.get_subcommands().any(|it| !it.is_hide_set()) {
        add(&|out| page.render_subcommands_section(out))?;
    }
    add(&|out| exit_status().to_writer(out))?;
    add(&|out| environment(command).to_writer(out))?;
    add(&|out| examples(path).to_writer(out))?;
    add(&|out| page.render_version_section(out))?;
    Ok(text)
}

/// Adds a section, without the definitions that the renderer begins each text with.
fn section(render: &dyn Fn(&mut dyn Write) -> io::Result<()>, page: &mut String) -> io::Result<()> {
    let mut bytes = Vec::new();
    render(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let definitions = Roff::new().render();
    page.push_str(text.strip_prefix(&definitions).unwrap_or(&text));
    Ok(())
}

/// For the synopsis: among the many options that every command has, nobody would find its own.
fn without_global_options(command: &Command) -> Page {
    let hidden = |arg: Arg| match arg.is_global_set() {
        true => arg.hide(true),
        false => arg,
    };
    Page::new(command.clone().mut_args(hidden))
}

/// The end of the synopsis: the heading of these options.
fn global_options() -> Roff {
    let mut roff = Roff::new();
    roff.text([roman("[GLOBAL OPTIONS]")]);
    roff
}

/// The text after the options in `--help`, except for the examples.
fn more_description(command: &Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(help) = command.get_after_help() {
        roff.control("PP", []);
        for line in help.to_string().lines() {
            roff.text([roman(line)]);
        }
    }
    roff
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXIT_CODES {
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(meaning)]);
    }
    roff
}

/// The variables that are not the value of an option.
const VARIABLES: [(&str, &str); 5] = [
    (
        "ANNALS_TOKEN",
        "The token of the server, unless --token-file names a file with it.",
    ),
    (
        "ANNALS_PROXY_PASSWORD",
        "The password of the proxy in aws-client-config.",
    ),
    (
        "AWS_REGION, AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
        "Region and credentials for DynamoDB and Kinesis, as in every program with the AWS SDK.",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME",
        "Where annals serve sends traces, and under which name.",
    ),
    ("NO_COLOR", "If set, nothing is coloured."),
];

fn environment(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["ENVIRONMENT"]);
    roff.text([roman(
        "An option overrides its variable, which overrides the settings file. An empty variable counts as not set.",
    )]);
    let mut entry = |name: &str, meaning: &str| {
        roff.control("TP", []);
        roff.text([bold(name)]);
        roff.text([roman(meaning)]);
    };
    for option in command.get_arguments() {
        if let (Some(name), Some(long)) = (option.get_env(), option.get_long()) {
            entry(&name.to_string_lossy(), &format!("The value of --{long}."));
        }
    }
    for (name, meaning) in VARIABLES {
        entry(name, meaning);
    }
    roff
}

/// A default that is empty would be shown as `[default: ]`.
fn without_empty_defaults(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let defaults = arg.get_default_values();
        // A flag has none, and clap refuses to hide it.
        let is_shown_empty = !defaults.is_empty() && defaults.iter().all(|text| text.is_empty());
        match is_shown_empty {
            true => arg.hide_default_value(true),
            false => arg,
        }
    });
    command.mut_subcommands(without_empty_defaults)
}

fn examples(path: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    // Lines as they are, in a fixed width.
    roff.control("EX", []);
    for line in examples::of(path) {
        roff.text([roman(line)]);
    }
    roff.control("EE", []);
    roff
}
