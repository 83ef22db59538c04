"""Drives a gateway with Stripe's own client library: its retries, its generated keys.

usage: stripe_sdk.py BASE_URL API_KEY

Prints one line of JSON per call: its name, how it ended, and the HTTP status.
"""

import json
import sys

import stripe

base, api_key = sys.argv[1:]


def client(retries, timeout=30):
    return stripe.StripeClient(
        api_key,
        base_addresses={"api": base},
        max_network_retries=retries,
        http_client=stripe.RequestsClient(timeout=timeout),
    )


def call(name, path, retries=2, timeout=30, key=None, **params):
    if key:
        params["idempotency_key"] = key
    try:
        answer = client(retries, timeout).raw_request("post", path, **params)
        said = {"ended": "fine", "status": answer.code, "body": json.loads(answer.body)}
        said["replayed"] = answer.headers.get("Idempotent-Replayed") == "true"
    except stripe.StripeError as error:
        said = {"ended": type(error).__name__, "status": error.http_status}
    print(json.dumps({"call": name, **said}), flush=True)


order = {"amount": 1200, "currency": "eur", "metadata": {"order": "7"}}
call("plain", "/v1/charges", **order)
call("reset after the work", "/v1/charges?drop=after&key=reset", **order)
call("fails after the work", "/v1/charges?status=500&key=fails", **order)
call("slower than the client", "/v1/charges?hold=2500&key=slow", retries=8, timeout=1, **order)
call("first", "/v1/charges?key=explicit", key="order-7", **order)
call("repeated", "/v1/charges?key=explicit", key="order-7", **order)
call("edited", "/v1/charges?key=explicit", key="order-7", **{**order, "amount": 1300})
