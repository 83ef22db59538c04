//! Settings about the edge: what a tenant may send, and what the upstream gets.

use std::num::NonZeroU32;

use cluster::Quota;

use super::*;

#[test]
fn a_rate_limit_needs_a_rate_and_may_have_a_burst() {
    let limit = |text: &str| policy(text).unwrap().rate_limit;
    let count = |number| NonZeroU32::new(number).unwrap();
    assert_eq!(limit(""), None);
    let both = RateLimit { per_second: count(100), burst: count(200) };
    assert_eq!(limit("rate_limit = { per_second = 100, burst = 200 }"), Some(both));
    let even = RateLimit { per_second: count(5), burst: count(5) };
    assert_eq!(limit("rate_limit = { per_second = 5 }"), Some(even));
    assert_refused("rate_limit = { burst = 5 }", "missing");
    assert_refused("rate_limit = { per_second = 0 }", "out-of-range");
    assert_refused("rate_limit = { per_second = 1000001 }", "out-of-range");
    assert_refused("rate_limit = { per_second = 1, burts = 2 }", "unknown-name");
    assert_refused("rate_limit = 5", "wrong-type");
}

#[test]
fn a_quota_limits_keys_or_bytes_of_one_tenant() {
    let tenant = |name: &str, more: &str| {
        format!("[[tenant]]\nname = \"{name}\"\ncredentials = []\n{more}\n")
    };
    let of = |more: &str| {
        let text = tenant("a", more) + &tenant("b", "");
        policy(&text).unwrap().quotas().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(of(""), []);
    let only = |records, bytes| [("a".to_owned(), Quota { records, bytes })];
    let both = only(Some(1_000_000), Some(10 << 30));
    assert_eq!(of("quota = { keys = 1000000, bytes = \"10GiB\" }"), both);
    assert_eq!(of("quota = { keys = 5 }"), only(Some(5), None));
    assert_eq!(of("quota = { bytes = \"1KiB\" }"), only(None, Some(1024)));
    for (more, rule) in [
        ("quota = {}", "missing"),
        ("quota = { keys = 0 }", "out-of-range"),
        ("quota = { bytes = \"0B\" }", "wrong-value"),
        ("quota = { bytes = 1024 }", "wrong-type"),
        ("quota = { bytes = \"1024\" }", "wrong-unit"),
        ("quota = { bytes = \"2PiB\" }", "out-of-range"),
        ("quota = { kyes = 5, keys = 5 }", "unknown-name"),
        ("quota = 5", "wrong-type"),
    ] {
        assert_refused(&tenant("a", more), rule);
    }
}

#[test]
fn a_derived_key_fits_every_downstream_and_frees_the_clients_key() {
    let derived = "forward = { key = \"derived\" }\n";
    let of = |text: &str| {
        let policy = policy(&operation(&format!("{derived}{text}"))).unwrap();
        let operation = policy.matching(&Method::POST, "/v1/x").operation.clone();
        (operation.forward.derived_key, operation.key_max)
    };
    assert_eq!(of("downstream = [{ key_max = 36 }]"), (true, 255));
    assert_eq!(of("downstream = [{ key_max = 36 }]\nkey_max = 300"), (true, 300));
    let short = operation(&format!("{derived}downstream = [{{ key_max = 35 }}]"));
    assert_refused(&short, "derived-key-above-downstream");
    let defaults = "[defaults]\nforward = { key = \"derived\" }\n";
    assert!(policy(defaults).unwrap().matching(&Method::POST, "/").operation.forward.derived_key);
}

#[test]
fn headers_that_mean_something_else_are_refused() {
    for name in ["Host", "Idempotency-Fence", "X-Forwarded-For", "Via", "TE", "Idempotent-Replayed"]
    {
        assert_refused(&operation(&format!("headers = [\"{name}\"]")), "forbidden-header");
        let forward = format!("forward = {{ tenant_header = \"{name}\" }}");
        assert_refused(&operation(&forward), "wrong-value");
    }
    for name in ["Idempotency-Key", "X-Key"] {
        let forward = format!("forward = {{ tenant_header = \"{name}\" }}");
        assert_refused(
            &operation(&format!("{forward}\nheaders = [\"X-Key\"]")),
            "forbidden-header",
        );
    }
    assert!(policy(&operation("forward = { tenant_header = \"X-Tenant\" }")).is_ok());
}

#[test]
fn an_upstream_over_tls_is_believed_by_the_authorities_of_a_file() {
    let process_with = |ca: &str, upstream: &str| {
        let text = PROCESS.replace("upstream = \"http://127.0.0.1:9999\"", upstream);
        let dir = process_dir(&text);
        fs::write(dir.path().join("ca.pem"), ca).unwrap();
        Process::load(&dir.path().join("oncegate.toml")).map_err(|refused| refused.to_string())
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let secure = "upstream = \"https://a.example\"\nupstream_ca_file = \"ca.pem\"";
    let (process, _) = process_with(&authority, secure).unwrap();
    assert!(process.gateway.unwrap().upstream_tls.is_some());
    for (ca, upstream, message) in [
        ("", secure, "holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", secure, "as PEM"),
        (&authority, "upstream = \"https://a\"\nupstream_ca_file = \"no.pem\"", "no.pem"),
        (&authority, "upstream = \"http://a\"\nupstream_ca_file = \"ca.pem\"", "needs an"),
    ] {
        let found = process_with(ca, upstream).unwrap_err();
        assert!(found.contains("error[wrong-value]") && found.contains(message), "{found}");
    }
}

#[test]
fn a_client_waits_for_a_second_at_least() {
    assert_refused(&operation("answer_within = \"999ms\""), "out-of-range");
    assert!(policy(&operation("answer_within = \"1s\"")).is_ok());
}
