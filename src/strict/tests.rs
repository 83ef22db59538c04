use http::Request;

use super::*;

fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn refused(method: &str, target: &str, headers: &[(&str, &str)]) -> Option<u16> {
    check(&head(method, target, headers)).err().map(|problem| problem.status().as_u16())
}

#[test]
fn a_plain_request_passes() {
    assert_eq!(refused("GET", "/", &[("host", "a")]), None);
    assert_eq!(refused("POST", "/orders?x=1", &[("host", "a.example:8080")]), None);
    assert_eq!(
        refused("POST", "/", &[("host", "[::1]:80"), ("transfer-encoding", "chunked")]),
        None
    );
    assert_eq!(refused("OPTIONS", "*", &[("host", "a")]), None);
    assert_eq!(refused("GET", "http://a/x", &[("host", "A:80")]), None);
}

#[test]
fn a_method_in_small_letters_is_none() {
    for method in ["post", "Post", "patch", "get", "propfind"] {
        assert_eq!(refused(method, "/", &[("host", "a")]), Some(405), "{method}");
    }
    assert_eq!(refused("PROPFIND", "/", &[("host", "a")]), None);
}

#[test]
fn a_host_is_there_once_and_is_a_host() {
    assert_eq!(refused("GET", "/", &[]), Some(400));
    assert_eq!(refused("GET", "/", &[("host", "a"), ("host", "a")]), Some(400));
    for host in ["", "a b", "a/b", "user@a", "a,b", "http://a", "a:99999"] {
        assert_eq!(refused("GET", "/", &[("host", host)]), Some(400), "{host:?}");
    }
}

#[test]
fn an_old_client_may_leave_the_host_out() {
    let mut head = head("GET", "/healthz", &[]);
    head.version = Version::HTTP_10;
    assert!(check(&head).is_ok());
}

#[test]
fn an_absolute_target_names_the_host_of_the_header() {
    assert_eq!(refused("GET", "http://b/", &[("host", "a")]), Some(400));
    assert_eq!(refused("GET", "http://a:81/", &[("host", "a")]), Some(400));
    assert_eq!(refused("GET", "http://u@a/", &[("host", "a")]), Some(400));
    assert_eq!(refused("GET", "https://a/", &[("host", "a")]), Some(400));
    assert_eq!(refused("GET", "ftp://a/", &[("host", "a")]), Some(400));
}

#[test]
fn a_target_without_a_path_is_refused() {
    assert_eq!(refused("GET", "*", &[("host", "a")]), Some(400));
    assert_eq!(refused("GET", "example.com:80", &[("host", "a")]), Some(400));
}

#[test]
fn a_target_has_a_bound() {
    let path = format!("/{}", "a".repeat(TARGET_BYTES_MAX));
    assert_eq!(refused("GET", &path, &[("host", "a")]), Some(414));
}

#[test]
fn methods_that_change_the_connection_are_refused() {
    assert_eq!(refused("CONNECT", "a:443", &[("host", "a:443")]), Some(405));
    assert_eq!(refused("TRACE", "/", &[("host", "a")]), Some(405));
    assert_eq!(refused("GET", "/", &[("host", "a"), ("upgrade", "websocket")]), Some(501));
}

#[test]
fn the_only_transfer_coding_is_chunked_once() {
    for coding in ["gzip, chunked", "chunked, chunked", "identity, chunked", "identity", "", "x"] {
        let headers = [("host", "a"), ("transfer-encoding", coding)];
        assert_eq!(refused("POST", "/", &headers), Some(400), "{coding:?}");
    }
    let twice = [("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
    assert_eq!(refused("POST", "/", &twice), Some(400));
}

#[test]
fn one_authorization_is_enough() {
    let headers = [("host", "a"), ("authorization", "Bearer a"), ("authorization", "Bearer b")];
    assert_eq!(refused("POST", "/", &headers), Some(400));
}
