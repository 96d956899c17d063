//! `annals config`.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;

use serde_json::json;

use crate::run::{Annals, finish};

#[test]
fn shows_the_effective_settings() {
    let annals = Annals::embedded();
    annals.write(
        "annals.toml",
        "layout = \"akka\"\n[aws-client-config]\nmax-connections = 7\n",
    );
    let annals = annals.with_variable("ANNALS_REGION", "eu-north-1");
    let lines = annals.run(&["config", "show"]).ok().json();
    let [settings] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(settings["layout"], json!("akka"));
    assert_eq!(settings["region"], json!("eu-north-1"));
    assert_eq!(settings["aws-client-config"]["max-connections"], json!(7));
    assert_eq!(settings["store"], json!("embedded"));
}

#[test]
fn the_toml_output_reads_back_as_the_same_settings() {
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

/// FR3 of the plugin's own tests. Nothing is set, so everything has its default.
#[test]
fn fr3_shows_every_setting_of_the_akka_layout() {
    let annals = Annals::embedded();
    let shown = settings(&annals, &[], &["--layout", "akka"]);
    let want = json!({
        "layout": "akka",
        "journal-table": "akka-persistence",
        "snapshot-table": "akka-persistence-snapshot",
        "state-table": "",
        "journal-name": "journal",
        "sequence-shards": 10,
        "replay-parallelism": 10,
        "persistence-ids-index-name": "persistence-ids-idx",
        "format": "b",
        "snapshot-order": "sequence-number",
        "gaps": "fail",
        "jvm-deletes": false,
        "replay-filter": {"mode": "repair-by-discard-old", "max-old-writers": 10},
        "aws-api-limits": {"max-item-size": 400_000},
        "endpoint": "",
        "region": "",
        "profile": "",
    });
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    // As the shipped file has them: every key, those of the client too.
    let shipped: toml::Table = include_str!("../../../../annals.toml").parse().unwrap();
    let shipped = serde_json::to_value(shipped).unwrap();
    for (name, value) in shipped.as_object().unwrap() {
        let is_other = ["layout", "journal-table", "snapshot-table", "state-table"];
        if !is_other.contains(&name.as_str()) {
            assert_eq!(&shown[name], value, "{name}");
        }
    }

    let toml = annals.run(&["config", "show", "--toml", "--layout", "akka"]);
    let toml: toml::Table = toml.ok().out.parse().unwrap();
    assert_eq!(serde_json::to_value(toml).unwrap(), shown);
    let mine = settings(
        &annals,
        &[],
        &["--layout", "akka", "--journal-table", "mine"],
    );
    assert_eq!(mine["journal-table"], json!("mine"));
}

#[test]
fn shows_contradictory_settings_as_they_are() {
    let flags = ["--layout", "akka", "--state-table", "mine"];
    let shown = settings(&Annals::embedded(), &[], &flags);
    assert_eq!(shown["state-table"], json!("mine"));
    assert_eq!(shown["journal-table"], json!(""));
}

#[test]
fn shows_no_secrets() {
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
fn an_empty_flag_or_variable_counts_as_not_given() {
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
fn an_endpoint_in_the_environment_does_not_select_dynamodb() {
    let annals = Annals::embedded();
    let env = [("ANNALS_ENDPOINT", "http://127.0.0.1:1")];
    let shown = settings(&annals, &env, &[]);
    assert_eq!(shown["store"], json!("embedded"));
    let shown = settings(&annals, &env, &["--dynamodb"]);
    assert_eq!(shown["endpoint"], json!("http://127.0.0.1:1"));
}

#[test]
fn a_folder_selects_the_embedded_store_only_on_the_command_line() {
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

const PEKKO: &str = "pekko.persistence.journal.plugin = \"dynamodb-journal\"\n\
    dynamodb-journal { endpoint = \"http://127.0.0.1:8000\", tracing = on\n\
    aws-secret-access-key = hush, aws-client-config.max-connections = 7, what = 1 }\n";

#[test]
fn an_imported_configuration_reads_back_as_the_same_settings() {
    let annals = Annals::embedded();
    annals.write("application.conf", PEKKO);
    // The import works without a settings file, and with an invalid one.
    annals.write("annals.toml", "nonsense");
    let imported = annals.run(&["config", "import", "application.conf"]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    assert!(!format!("{imported:?}").contains("hush"), "{imported:?}");
    let left: Vec<&str> = imported.err.lines().collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!(left[0], "not taken: dynamodb-journal.what: unknown");
    assert!(left[1].starts_with("not taken: dynamodb-journal.aws-secret-access-key: not app"));
    assert!(left[2].starts_with("not taken: dynamodb-journal.tracing: not applicable: "));

    annals.write("annals.toml", &imported.out);
    let shown = settings(&annals, &[], &[]);
    assert_eq!(shown["store"], json!("dynamodb"));
    assert_eq!(shown["layout"], json!("akka"));
    assert_eq!(shown["endpoint"], json!("http://127.0.0.1:8000"));
    assert_eq!(shown["journal-table"], json!("pekko-persistence"));
    assert_eq!(shown["aws-client-config"]["max-connections"], json!(7));

    let args = ["config", "import", "application.conf", "--json"];
    let object = annals.run(&args).ok().json().remove(0);
    assert_eq!(object["settings"]["layout"], json!("akka"));
    assert_eq!(object["not_taken"].as_array().unwrap().len(), 3);
    let last = json!({"key": "dynamodb-journal.what", "reason": "unknown"});
    assert_eq!(object["not_taken"][2], last);
}

/// The configuration of a whole service has hundreds of keys that are not the plugin's.
#[test]
fn an_import_lists_contradictions_first_and_unrelated_keys_on_one_line() {
    let annals = Annals::embedded();
    let service = "akka { loglevel = INFO, actor.provider = cluster }, http.port = 80, a.b = 1\n\
        akka.persistence.journal.plugin = \"dynamodb-journal\"\n\
        dynamodb-journal { journal-table = events, tracing = on, what = 1\n\
        endpoint = \"http://127.0.0.1:8000\" }\n\
        dynamodb-snapshot-store { snapshot-table = snaps, endpoint = \"http://127.0.0.1:8001\" }\n";
    annals.write("application.conf", service);
    let imported = annals.run(&["config", "import", "application.conf"]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let left: Vec<&str> = imported.err.lines().collect();
    let contradiction = "not taken: dynamodb-snapshot-store.endpoint: contradicts ";
    assert!(left[0].starts_with(contradiction), "{left:?}");
    assert!(left.contains(&"not taken: dynamodb-journal.what: unknown"));
    let (last, first) = left.split_last().unwrap();
    let unrelated = "not taken: 4 unrelated keys, such as akka.loglevel, \
        akka.actor.provider, http.port; --json lists all";
    assert_eq!(*last, unrelated);
    assert!(!first.iter().any(|line| line.contains("akka.")), "{left:?}");
    let args = ["config", "import", "application.conf", "--json"];
    let object = annals.run(&args).ok().json().remove(0);
    let all = object["not_taken"].as_array().unwrap().len();
    assert_eq!(all, first.len() + 4);

    annals.write(
        "application.conf",
        "http.port = 80, dynamodb-journal { what = 1 }",
    );
    let imported = annals.run(&["config", "import", "application.conf"]);
    assert!(
        imported
            .err
            .ends_with("not taken: 1 unrelated key: http.port\n"),
        "{imported:?}"
    );
}

#[test]
fn refuses_an_invalid_configuration() {
    let annals = Annals::embedded();
    let import = |flags: &[&str]| {
        let args = [&["config", "import", "application.conf"], flags].concat();
        annals.run(&args)
    };
    import(&[]).fails(2, "cannot read the configuration");
    annals.write("application.conf", "akka {\n  a = [1\n");
    import(&[]).fails(2, "line=`3`, file=`application.conf`");
    annals.write("application.conf", &"a{".repeat(200_000));
    import(&[]).fails(2, "deeper than 64 levels");
    annals.write("application.conf", PEKKO);
    import(&["--section", "mine"]).fails(2, "section=`mine`");
    std::fs::remove_file(annals.folder().join("application.conf")).unwrap();
    std::fs::create_dir(annals.folder().join("application.conf")).unwrap();
    import(&[]).fails(2, "cannot read the configuration");
}

/// The head of the first request to a proxy.
fn first_head(proxy: &TcpListener) -> String {
    let (peer, _) = proxy.accept().unwrap();
    let mut head = String::new();
    let mut peer = BufReader::new(peer);
    while !head.ends_with("\r\n\r\n") && peer.read_line(&mut head).unwrap() > 0 {}
    head
}

#[test]
fn the_proxy_password_comes_from_the_environment() {
    let annals = Annals::at("http://dynamodb.invalid:8000");
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = proxy.local_addr().unwrap().port();
    annals.write(
        "annals.toml",
        &format!(
            "[aws-client-config]\nproxy-host = \"127.0.0.1\"\nproxy-port = {port}\n\
             proxy-username = \"me\"\nmax-error-retry = 0\n"
        ),
    );
    let args = ["tables", "check"];
    annals.run(&args).fails(2, "set ANNALS_PROXY_PASSWORD");
    let seen = std::thread::spawn(move || first_head(&proxy));
    let mut command = annals.binary(&args);
    command.env("ANNALS_PROXY_PASSWORD", "p@ss word");
    let outcome = finish(command, "");
    assert_eq!(outcome.code, Some(4), "the proxy hangs up: {outcome:?}");
    assert!(!format!("{outcome:?}").contains("p@ss"), "{outcome:?}");
    let head = seen.join().unwrap();
    assert!(
        head.starts_with("POST http://dynamodb.invalid:8000/"),
        "{head}"
    );
    // me:p@ss word
    let sent = "proxy-authorization: Basic bWU6cEBzcyB3b3Jk";
    assert!(head.to_lowercase().contains(&sent.to_lowercase()), "{head}");
}

/// Otherwise the tables of the JVM would be looked for in the new layout.
#[test]
fn another_layout_than_the_files_has_its_own_tables() {
    let annals = Annals::embedded();
    annals.write(
        "annals.toml",
        "layout = \"akka\"\njournal-table = \"pekko\"\n",
    );
    let table = |args: &[&str]| {
        let shown = annals
            .run(&[&["config", "show"], args].concat())
            .ok()
            .json();
        shown[0]["journal-table"].as_str().unwrap().to_owned()
    };
    assert_eq!(table(&[]), "pekko");
    assert_eq!(table(&["--layout", "akka"]), "pekko");
    assert_eq!(table(&["--layout", "annals"]), "annals-journal");
    let named = ["--layout", "annals", "--journal-table", "mine"];
    assert_eq!(table(&named), "mine");
}
