use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

mod compared;
mod edge;
mod natural_keys;
mod profiles;

const DIGEST: &str = "ef260e9aa3c673af240d17a2660480361a8e081d1ffeca2a5ed0e3219fc18567";

fn policy(text: &str) -> Result<Policy, String> {
    Policy::parse(std::path::Path::new("policy.toml"), text)
        .map(|(policy, _)| policy)
        .map_err(|refused| refused.to_string())
}

/// The findings of a policy that is refused.
fn findings(text: &str) -> String {
    policy(text).expect_err("the policy is refused")
}

fn assert_refused(text: &str, rule: &str) {
    let found = findings(text);
    assert!(found.contains(&format!("error[{rule}]")), "{text}\n-> {found}");
}

/// A policy of one operation with these lines.
fn operation(lines: &str) -> String {
    format!("[[operation]]\nmatch = \"POST /v1/x\"\n{lines}\n")
}

/// A directory with a process file of this text and a secret beside it.
fn process_dir(text: &str) -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("oncegate.toml"), text).unwrap();
    let secret = dir.path().join("cluster.secret");
    fs::write(&secret, "0123456789abcdef0123456789abcdef\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    dir
}

fn process(text: &str) -> Result<(Process, Vec<Finding>), String> {
    let dir = process_dir(text);
    let shown = dir.path().display().to_string();
    Process::load(&dir.path().join("oncegate.toml"))
        .map_err(|refused| refused.to_string().replace(&format!("{shown}/"), ""))
}

const PROCESS: &str = r#"
[cluster]
name = "payments"
secret_file = "cluster.secret"
policy = "policy.toml"
peers = [
    { id = 1, addr = "127.0.0.1:7101", region = "eu-west" },
    { id = 2, addr = "127.0.0.1:7102", region = "eu-west" },
    { id = 3, addr = "127.0.0.1:7103", region = "us-east" },
]
[node]
id = 3
data_dir = "data/3"
peer_listen = "0.0.0.0:7103"
[gateway]
listen = "127.0.0.1:8080"
upstream = "http://127.0.0.1:9999"
answers_from = "proxy"
max_request_body = "2MiB"
"#;

#[test]
fn every_mistake_of_a_policy_is_found_at_once_with_its_place() {
    let text = include_str!("tests/wrong_policy.toml");
    let expected = include_str!("tests/wrong_policy.txt");
    assert_eq!(findings(text) + "\n", expected);
}

#[test]
fn every_mistake_of_a_process_file_is_found_at_once_with_its_place() {
    let text = include_str!("tests/wrong_process.toml");
    let expected = include_str!("tests/wrong_process.txt");
    assert_eq!(process(text).unwrap_err() + "\n", expected);
}

#[test]
fn what_is_no_toml_is_refused_with_its_place() {
    let found = findings("protect = \"keyed\"\n[[operation]\nname = 1\n");
    assert!(found.starts_with("policy.toml:2:"), "{found}");
    assert!(found.contains("error[syntax]"), "{found}");
    assert_refused("a = 1\na = 2\n", "syntax");
}

#[test]
fn an_empty_policy_has_the_documented_defaults() {
    let policy = policy("").unwrap();
    let matched = policy.matching(&Method::POST, "/anything");
    let operation = matched.operation;
    assert_eq!((&*matched.name, matched.listed), ("POST /anything", false));
    assert_eq!(policy.protect, Protect::Keyed);
    assert_eq!(operation.headers, ["idempotency-key"]);
    assert_eq!(operation.key_max, 255);
    assert_eq!(operation.lease, Millis::from_secs(10));
    assert_eq!(operation.answer_within, Millis::from_secs(30));
    assert_eq!(operation.max_execution, Millis::from_secs(60));
    assert_eq!(operation.on_unknown, OnUnknown::FailClosed);
    assert_eq!(operation.retention, Retention::For(Millis::from_secs(86_400)));
    assert_eq!(operation.max_snapshot, ByteSize::kib(64));
    assert_eq!(operation.indeterminate_status, StatusCode::CONFLICT);
    assert!(!operation.required);
}

#[test]
fn defaults_stand_behind_every_operation() {
    let policy = policy(
        "[defaults]\nlease = \"4s\"\nrequired = true\n\
         [[operation]]\nmatch = \"POST /a\"\n\
         [[operation]]\nmatch = \"POST /b\"\nlease = \"8s\"\n",
    )
    .unwrap();
    let lease = |path| policy.matching(&Method::POST, path).operation.lease;
    assert_eq!(lease("/a"), Millis::from_secs(4));
    assert_eq!(lease("/b"), Millis::from_secs(8));
    assert_eq!(lease("/c"), Millis::from_secs(4));
    assert!(policy.matching(&Method::POST, "/a").operation.required);
}

#[test]
fn the_more_exact_route_is_meant_wherever_it_stands() {
    let policy = policy(
        "[[operation]]\nmatch = \"POST /v1/{kind}\"\nname = \"any\"\n\
         [[operation]]\nmatch = \"POST /v1/orders\"\nname = \"orders\"\n",
    )
    .unwrap();
    assert_eq!(policy.matching(&Method::POST, "/v1/orders").name, "orders");
    assert_eq!(policy.matching(&Method::POST, "/v1/refunds").name, "any");
}

#[test]
fn an_operation_is_found_by_its_name_and_by_any_of_its_requests() {
    let text = "[[operation]]\nmatch = \"POST /v1/x/{id}\"\nname = \"x\"\n";
    let keyed = policy(text).unwrap();
    assert_eq!(keyed.named("x").unwrap().name, "x");
    assert_eq!(keyed.named("POST /v1/x/7").unwrap().name, "x");
    assert_eq!(keyed.named("POST /other").unwrap().name, "POST /other");
    assert_eq!(keyed.named("a job of our own").unwrap().name, "a job of our own");
    for no_name in ["", " x", "x ", "a\u{e4}", "a\nb", "TRACE /x", &"x".repeat(129)] {
        assert!(keyed.named(no_name).is_none(), "{no_name:?}");
    }
    assert!(keyed.named("GET /other").is_none());
    let long = |bytes: usize| format!("POST /{}", "a".repeat(bytes));
    assert!(keyed.named(&long(8000)).is_some());
    for bytes in [8200, 65_400, 65_500, 70_000] {
        assert!(keyed.named(&long(bytes)).is_none());
        let text = format!("[[operation]]\nmatch = \"{}\"\n", long(bytes));
        assert_refused(&text, "wrong-value");
    }
    let listed = policy(&format!("protect = \"listed\"\n{text}")).unwrap();
    assert!(listed.named("POST /v1/x/7").is_some());
    assert!(listed.named("POST /other").is_none());
    assert!(listed.named("a job of our own").is_none());
}

#[test]
fn retention_obeys_its_rules() {
    assert_refused(&operation("retention = \"23h\""), "retention-under-24h");
    assert!(policy(&operation("retention = \"23h\"\nshort_retention = true")).is_ok());
    let short = "retention = \"60s\"\nshort_retention = true\n";
    assert_refused(&operation(short), "retention-under-retries");
    let budget = format!("{short}retry_budget = {{ attempts = 4, max_backoff = \"10s\" }}");
    assert!(policy(&operation(&budget)).is_ok());
    assert_refused(&operation("retention = \"forever\""), "forever-without-natural-key");
}

#[test]
fn money_sets_a_week_and_refuses_less() {
    let week = Retention::For(Millis::from_secs(7 * 86_400));
    let of =
        |text: &str| policy(text).unwrap().matching(&Method::POST, "/v1/x").operation.retention;
    assert_eq!(of(&operation("money = true")), week);
    assert_eq!(of(&format!("[defaults]\nretention = \"2d\"\n{}", operation("money = true"))), week);
    assert_refused(&operation("money = true\nretention = \"2d\""), "money-retention");
    assert_refused("[defaults]\nmoney = true\nretention = \"2d\"\n", "money-retention");
}

#[test]
fn a_takeover_needs_downstreams_that_remember_the_key_long_enough() {
    let takeover = "on_unknown = \"takeover\"\n";
    assert_refused(&operation(takeover), "takeover-needs-idempotent-downstream");
    let one = |downstream: &str| operation(&format!("{takeover}downstream = [{downstream}]"));
    assert_refused(&one("{ idempotent = false }"), "takeover-needs-idempotent-downstream");
    assert_refused(
        &one("{ idempotent = true }, { idempotent = false }"),
        "takeover-needs-idempotent-downstream",
    );
    assert_refused(
        &one("{ idempotent = true, retention = \"12h\" }"),
        "retention-above-downstream",
    );
    let seconds = "{ idempotent = true, retention = \"79s\" }";
    assert_refused(&one(seconds), "takeover-never-possible");
    let policy = policy(&one("{ idempotent = true, retention = \"24h\" }")).unwrap();
    let downstream_retention = Millis::from_secs(86_400);
    let operation = policy.matching(&Method::POST, "/v1/x").operation;
    assert_eq!(operation.on_unknown, OnUnknown::Takeover { downstream_retention });
}

#[test]
fn an_execution_may_take_as_long_as_a_lease_at_least() {
    assert!(policy(&operation("lease = \"20s\"\nmax_execution = \"20s\"")).is_ok());
    let short = operation("lease = \"20s\"\nmax_execution = \"19999ms\"");
    assert_refused(&short, "max-execution-under-lease");
    assert_refused(&operation("lease = \"61s\""), "max-execution-under-lease");
}

#[test]
fn the_smallest_downstream_limits_the_key() {
    let downstream = "downstream = [{ key_max = 64 }, { key_max = 100 }]";
    let of = |text: &str| policy(text).unwrap().matching(&Method::POST, "/v1/x").operation.key_max;
    assert_eq!(of(&operation(downstream)), 64);
    assert_eq!(of(&operation(&format!("key_max = 40\n{downstream}"))), 40);
    assert_refused(&operation(&format!("key_max = 65\n{downstream}")), "key-max-above-downstream");
}

#[test]
fn what_is_not_honoured_yet_is_refused() {
    assert_refused(&operation("mode = \"audit\""), "wrong-value");
    assert_refused("homes = [\"eu\"]", "not-supported");
    let tenant = |more: &str| format!("[[tenant]]\nname = \"a\"\ncredentials = []\n{more}\n");
    assert_refused(&tenant("home = \"eu\""), "not-supported");
}

#[test]
fn origins_are_spelled_as_browsers_send_them() {
    assert!(policy("").unwrap().cors.is_none());
    let cors = policy("cors = { origins = [\"https://shop.example\", \"http://localhost:3000\"] }");
    assert_eq!(
        cors.unwrap().cors.unwrap().origins,
        ["https://shop.example", "http://localhost:3000"]
    );
    for origin in [
        "*",
        "shop.example",
        "https://shop.example/",
        "https://Shop.example",
        "ftp://shop.example",
        "https://shop.example:443",
        "https://me@shop.example",
        "https://shop.example:",
        "null",
        "https://shop.example/a",
        "https://shop.example?a",
    ] {
        assert_refused(&format!("cors = {{ origins = [\"{origin}\"] }}"), "wrong-value");
    }
    assert_refused("cors = { origins = [] }", "wrong-value");
    assert_refused("cors = {}", "missing");
}

#[test]
fn the_defaults_of_what_is_not_honoured_yet_may_stand_there() {
    let text = "homes = []\n".to_owned()
        + &operation(
            "profile = \"default\"\nscope = \"route\"\nscope_by = []\nisolate = \"tenant\"\n\
             natural_key = []\nfingerprint = { ignore = [], only = [], headers = [] }\n\
             forward = { key = \"raw\", authorization = \"keep\" }\nreplay = \"snapshot\"\n\
             mode = \"enforce\"",
        );
    policy(&text).unwrap();
}

#[test]
fn names_that_would_share_records_are_refused() {
    let two =
        |first: &str, second: &str| format!("[[operation]]\n{first}\n[[operation]]\n{second}\n");
    assert_refused(
        &two("match = \"POST /a\"\nname = \"x\"", "match = \"POST /b\"\nname = \"x\""),
        "duplicate",
    );
    assert_refused(&two("match = \"POST /{a}\"", "match = \"POST /{b}\""), "ambiguous-route");
    assert_refused("[[operation]]\nmatch = \"POST /a\"\nname = \"POST /b\"\n", "ambiguous-name");
}

#[test]
fn credentials_are_told_apart() {
    let credential = |name: &str| {
        format!("{{ name = \"{name}\", api_key_sha256 = \"{DIGEST}\", use = [\"claims\"] }}")
    };
    let tenant = |name: &str, credentials: &str| {
        format!("[[tenant]]\nname = \"{name}\"\ncredentials = [{credentials}]\n")
    };
    let one = tenant("a", &credential("web"));
    assert!(policy(&one).is_ok());
    assert_refused(&(one.clone() + &tenant("b", &credential("web"))), "duplicate");
    assert_refused(&(one + &tenant("a", "")), "duplicate");
    assert_refused(
        &tenant("a", "{ name = \"x\", api_key_sha256 = \"00\", use = [] }"),
        "wrong-value",
    );
    assert_refused(&tenant("a", "{ name = \"x\" }"), "missing");
    assert_refused(&tenant(" a", ""), "wrong-value");
}

#[test]
fn operations_share_their_keys_where_they_say_so() {
    let text = |scope: &str| operation(&format!("name = \"x\"\nscope = \"{scope}\""));
    let named = |scope: &str| {
        let policy = policy(&text(scope)).unwrap();
        let matched = policy.matching(&Method::POST, "/v1/x");
        (matched.scope("acme", "web", Vec::new()).operation, matched.unnamed_operation())
    };
    let x = || Some("x".to_owned());
    assert_eq!((named("route"), named("account")), ((x(), None), (None, x())));
    assert_ne!(
        policy(&text("route")).unwrap().naming(),
        policy(&text("account")).unwrap().naming()
    );
    assert_refused(&text("global"), "wrong-value");
}

#[test]
fn keys_are_isolated_by_credential_where_an_operation_says_so() {
    let text = |more: &str| operation(&format!("name = \"x\"\n{more}"));
    let scope = |text: &str, credential: &str| {
        let policy = policy(text).unwrap();
        policy.matching(&Method::POST, "/v1/x").scope("acme", credential, Vec::new())
    };
    let isolated = text("isolate = \"credential\"");
    assert_ne!(scope(&isolated, "web"), scope(&isolated, "worker"));
    assert_eq!(scope(&text(""), "web"), scope(&text(""), "worker"));
    assert_ne!(policy(&isolated).unwrap().naming(), policy(&text("")).unwrap().naming());
    let of_unlisted = policy("[defaults]\nisolate = \"credential\"\n").unwrap();
    assert_ne!(of_unlisted.naming(), policy("").unwrap().naming());
    assert_refused(&text("isolate = \"user\""), "wrong-value");
}

#[test]
fn admins_have_a_name_a_token_and_a_role() {
    let admin = |name: &str, role: &str, digest: &str| {
        format!("[[admin]]\nname = \"{name}\"\nrole = \"{role}\"\ntoken_sha256 = \"{digest}\"\n")
    };
    let read = policy(&admin("ops", "operator", DIGEST)).unwrap();
    assert_eq!((read.admins[0].name.as_str(), read.admins[0].role), ("ops", Role::Operator));
    assert!(Role::Viewer < Role::Operator);
    assert_refused(&admin("ops", "root", DIGEST), "wrong-value");
    assert_refused(&admin("ops", "viewer", "00"), "wrong-value");
    assert_refused("[[admin]]\nname = \"ops\"\n", "missing");
    let other = DIGEST.replace('0', "1");
    assert_refused(&(admin("a", "viewer", DIGEST) + &admin("a", "viewer", &other)), "duplicate");
    let key = format!("{{ name = \"x\", api_key_sha256 = \"{DIGEST}\", use = [\"claims\"] }}");
    let tenant = format!("[[tenant]]\nname = \"a\"\ncredentials = [{key}]\n");
    assert_refused(&(tenant + &admin("a", "viewer", DIGEST)), "duplicate");
}

#[test]
fn the_naming_digest_covers_what_names_records_and_nothing_else() {
    let naming = |text: &str| policy(text).unwrap().naming();
    let base = "[[operation]]\nmatch = \"POST /a/{id}\"\nname = \"a\"\n\
                [[operation]]\nmatch = \"POST /b\"\n";
    let same = [
        "[[operation]]\nmatch = \"POST /b\"\n\
         [[operation]]\nmatch = \"POST /a/{other}\"\nname = \"a\"\n"
            .to_owned(),
        format!("{base}lease = \"5s\"\nretention = \"3d\"\n"),
        format!("{base}[[tenant]]\nname = \"x\"\ncredentials = []\n"),
    ];
    for text in same {
        assert_eq!(naming(base), naming(&text), "{text}");
    }
    let other = [
        String::new(),
        base.replace("name = \"a\"", "name = \"c\""),
        base.replace("/a/{id}", "/a/x"),
        base.replace("POST /b", "PATCH /b"),
        format!("{base}[[operation]]\nmatch = \"POST /c\"\n"),
    ];
    for text in other {
        assert_ne!(naming(base), naming(&text), "{text}");
    }
}

#[test]
fn the_naming_digest_never_changes_for_the_same_names() {
    let digest =
        policy("[[operation]]\nmatch = \"POST /a/{id}\"\nname = \"a\"\n").unwrap().naming();
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, "d340ef8031e71720274bd8a2a04b993bcef812866c51cbc14f22e7112075719f");
}

#[test]
fn a_process_file_is_read_with_its_defaults() {
    let dir = process_dir(PROCESS);
    let (process, warnings) = Process::load(&dir.path().join("oncegate.toml")).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(process.cluster.shards, 16);
    assert_eq!(process.cluster.peers.len(), 3);
    assert_eq!(process.cluster.policy, Some(dir.path().join("policy.toml")));
    assert_eq!(process.cluster.secret.as_bytes(), b"0123456789abcdef0123456789abcdef");
    assert_eq!(process.node.unwrap().data_dir, dir.path().join("data/3"));
    assert_eq!(process.api.listen, "127.0.0.1:7201".parse().unwrap());
    let gateway = process.gateway.unwrap();
    assert_eq!(gateway.region, "us-east", "the node's");
    assert_eq!(gateway.answers_from, AnswersFrom::Proxy);
    assert_eq!(gateway.max_request_body, ByteSize::mib(2));
}

#[test]
fn a_process_is_a_node_or_a_gateway_or_both() {
    let (storage, gateway) = PROCESS.split_once("[gateway]").unwrap();
    assert!(process(storage).unwrap().0.gateway.is_none());
    let (neither, _) = storage.split_once("[node]").unwrap();
    let alone = process(&format!("{neither}[gateway]{gateway}region = \"ap-south\"\n")).unwrap().0;
    assert!(alone.node.is_none());
    assert_eq!(alone.gateway.unwrap().region, "ap-south");
    let found = process(neither).unwrap_err();
    assert!(found.contains("error[nothing-to-run]: a process needs"), "{found}");
    let broken = format!("{neither}[node]\nid = 9\n[gateway]{gateway}");
    assert!(process(&broken).unwrap_err().contains("data_dir"), "a broken node is no gateway");
}

#[test]
fn a_secret_must_be_there_be_long_and_should_be_private() {
    let dir = process_dir(PROCESS);
    let (file, secret) = (dir.path().join("oncegate.toml"), dir.path().join("cluster.secret"));
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let (_, warnings) = Process::load(&file).unwrap();
    assert_eq!(warnings[0].rule, "secret-world-readable");
    assert_eq!(warnings[0].severity, Severity::Warning);
    fs::write(&secret, "short").unwrap();
    let found = Process::load(&file).unwrap_err().to_string();
    assert!(found.contains("must hold at least 16 bytes"), "{found}");
    fs::remove_file(&secret).unwrap();
    assert!(Process::load(&file).is_err());
}

#[test]
fn peers_are_an_odd_few_and_listeners_are_apart() {
    let two =
        PROCESS.replace("    { id = 2, addr = \"127.0.0.1:7102\", region = \"eu-west\" },\n", "");
    assert!(process(&two).unwrap_err().contains("must be one, three or five"));
    let foreign = PROCESS.replace("id = 3\ndata_dir", "id = 4\ndata_dir");
    assert!(process(&foreign).unwrap_err().contains("error[not-a-peer]"));
    let taken = PROCESS.replace("127.0.0.1:8080", "127.0.0.1:7103");
    assert!(process(&taken).unwrap_err().contains("error[address-taken-twice]"));
    let itself = PROCESS.replace("127.0.0.1:9999", "127.0.0.1:8080");
    assert!(process(&itself).unwrap_err().contains("error[upstream-is-gateway]"));
}

#[test]
fn a_file_that_is_not_there_is_refused_by_name() {
    let refused = Policy::load(std::path::Path::new("/nowhere/policy.toml")).unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with("/nowhere/policy.toml: error[unreadable]: "), "{text}");
}

#[test]
fn the_kind_of_a_file_shows_in_its_tables() {
    assert_eq!(Kind::of(PROCESS), Some(Kind::Process));
    assert_eq!(Kind::of(&operation("")), Some(Kind::Policy));
    assert_eq!(Kind::of("= broken\n[cluster]\n"), Some(Kind::Process));
    assert_eq!(Kind::of("# nothing yet\n"), None);
}
