//! `annals config`.

use serde_json::json;

use crate::run::{Annals, finish};

#[test]
fn the_settings_in_force_are_shown() {
    let annals = Annals::embedded();
    annals.write(
        "annals.toml",
        "layout = \"akka\"\n[aws-client-config]\nmax-connections = 7\n",
    );
    let lines = annals
        .run(&["config", "show", "--region", "eu-north-1"])
        .ok()
        .json();
    let [settings] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(settings["layout"], json!("akka"));
    assert_eq!(settings["region"], json!("eu-north-1"));
    assert_eq!(settings["aws-client-config"]["max-connections"], json!(7));
    assert_eq!(settings["store"], json!("embedded"));
}

#[test]
fn what_is_shown_as_toml_reads_back_as_the_same_settings() {
    let annals = Annals::embedded();
    let args = [
        "config",
        "show",
        "--toml",
        "--layout",
        "j5ik2o",
        "--journal-table",
        "events",
    ];
    let shown = annals.run(&args).ok().out;
    annals.write("other.toml", &shown);
    let again = annals
        .run(&["config", "show", "--toml", "--config", "other.toml"])
        .ok()
        .out;
    assert_eq!(again, shown);
}

#[test]
fn secrets_are_not_shown() {
    let annals = Annals::embedded().with_access_key("AKIAEXAMPLE");
    let outcome = annals.run(&["config", "show"]).ok();
    assert!(!outcome.out.contains("AKIAEXAMPLE"), "{outcome:?}");
}

#[track_caller]
fn settings(annals: &Annals, env: &[(&str, &str)], flags: &[&str]) -> serde_json::Value {
    let mut command = annals.command(env!("CARGO_BIN_EXE_annals").as_ref());
    command.envs(env.iter().copied());
    command.args(["config", "show"]).args(flags);
    finish(command, "").ok().json().remove(0)
}

#[test]
fn an_empty_flag_or_variable_is_as_good_as_none() {
    let annals = Annals::embedded();
    annals.write(
        "annals.toml",
        "store = \"dynamodb\"\nlayout = \"akka\"\nregion = \"eu-north-1\"\n\
         data = \"mine\"\njournal-name = \"mine\"\njournal-table = \"mine\"\n",
    );
    let want = settings(&annals, &[], &[]);
    let names = [
        "config",
        "data",
        "endpoint",
        "region",
        "layout",
        "journal-table",
        "snapshot-table",
        "state-table",
        "journal-name",
    ];
    for name in names {
        let variable = format!("ANNALS_{}", name.replace('-', "_").to_uppercase());
        assert_eq!(settings(&annals, &[(&variable, "")], &[]), want, "{name}");
        let flag = format!("--{name}");
        assert_eq!(settings(&annals, &[], &[&flag, ""]), want, "{name}");
    }
}

#[test]
fn an_endpoint_in_the_environment_waits_for_dynamodb() {
    let annals = Annals::embedded();
    let env = [("ANNALS_ENDPOINT", "http://127.0.0.1:1")];
    let shown = settings(&annals, &env, &[]);
    assert_eq!(shown["store"], json!("embedded"));
    let shown = settings(&annals, &env, &["--dynamodb"]);
    assert_eq!(shown["endpoint"], json!("http://127.0.0.1:1"));
}

#[test]
fn a_folder_that_is_typed_is_the_store_and_one_in_the_environment_is_not() {
    let annals = Annals::embedded();
    annals.write("annals.toml", "store = \"dynamodb\"\n");
    let env = [("ANNALS_DATA", "from-env")];
    let shown = settings(&annals, &env, &[]);
    assert_eq!(shown["store"], json!("dynamodb"));
    assert_eq!(shown["data"], json!("from-env"));
    let shown = settings(&annals, &env, &["--data", "typed"]);
    assert_eq!(shown["store"], json!("embedded"));
    assert_eq!(shown["data"], json!("typed"));
}
