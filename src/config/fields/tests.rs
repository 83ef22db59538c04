use std::path::Path;

use http::Method;

use crate::config::Policy;

fn policy(scope_by: &str) -> Result<Policy, String> {
    let text = format!("[[operation]]\nmatch = \"POST /x\"\nname = \"x\"\nscope_by = {scope_by}\n");
    Policy::parse(Path::new("policy.toml"), &text)
        .map(|(policy, _)| policy)
        .map_err(|refused| refused.to_string())
}

#[test]
fn fields_are_read_as_they_are_written() {
    let all = r#"["header:Stripe-Account", "json:/a/b~1c", "query:shop id", "form:account"]"#;
    let policy = policy(all).unwrap();
    let fields = &policy.matching(&Method::POST, "/x").operation.scope_by;
    let texts: Vec<String> = fields.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["header:stripe-account", "json:/a/b~1c", "query:shop id", "form:account"]);
}

#[test]
fn what_is_no_field_is_refused_with_its_place() {
    for field in [
        "account",
        "cookie:a",
        "header:",
        "header:a b",
        "header:Authorization",
        "header:Host",
        "json:",
        "json:merchant",
        "json:/~2",
        "query:",
        "form:",
    ] {
        let found = policy(&format!("[\"{field}\"]")).unwrap_err();
        assert!(found.starts_with("policy.toml:4:13: error[wrong-value]"), "{field}: {found}");
    }
    let twice = policy(r#"["header:a", "header:A"]"#).unwrap_err();
    assert!(twice.contains("policy.toml:4:25: error[duplicate]"), "{twice}");
    let list = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!("\"query:{n}\"")).collect();
        format!("[{}]", fields.join(", "))
    };
    assert!(policy(&list(8)).is_ok());
    assert!(policy(&list(9)).unwrap_err().contains("error[wrong-value]"));
    assert!(policy("\"query:a\"").unwrap_err().contains("error[wrong-type]"));
}

#[test]
fn fields_and_their_order_are_a_part_of_names() {
    let naming = |scope_by: &str| policy(scope_by).unwrap().naming();
    let all = [
        naming("[]"),
        naming(r#"["query:a"]"#),
        naming(r#"["form:a"]"#),
        naming(r#"["query:a", "query:b"]"#),
        naming(r#"["query:b", "query:a"]"#),
    ];
    for (index, digest) in all.iter().enumerate() {
        assert!(!all[..index].contains(digest), "{index}");
    }
}
