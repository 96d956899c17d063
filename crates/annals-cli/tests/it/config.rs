//! `annals config`.

use serde_json::json;

use crate::run::Annals;

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
