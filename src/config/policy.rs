//! Reads `policy.toml`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;

use bytesize::ByteSize;
use cluster::Quota;
use toml::de::DeTable;

use super::cors;
use super::file::document;
use super::finding::{Finding, Findings, Refused};
use super::section::{Located, Section};
use super::{
    AdminSettings, AuthSettings, CredentialSettings, Operation, Policy, Protect, RateLimit, Role,
    TenantSettings, auth, lint, naming, operation,
};
use crate::tenant::is_reserved;

/// The most requests of a second that may be configured: far more than one process serves.
const RATE_MAX: u64 = 1_000_000;

/// The largest quotas that may be configured: more than any disk holds.
const QUOTA_KEYS_MAX: u64 = 1_000_000_000_000;
const QUOTA_BYTES_MAX: ByteSize = ByteSize::pib(1);

/// Digests by which credentials are kept are SHA-256.
const DIGEST_BYTES: usize = 32;

impl Policy {
    /// Reads a policy file; the findings are warnings.
    ///
    /// # Errors
    /// When the file cannot be read, or for anything in it that is wrong.
    pub fn load(file: &Path) -> Result<(Self, Vec<Finding>), Refused> {
        let text = fs::read_to_string(file)
            .map_err(|error| Finding::of_file(file, "unreadable", error.to_string()))?;
        Self::parse(file, &text)
    }

    /// Reads a policy from its text; `file` is what it is called in findings.
    ///
    /// # Errors
    /// For anything in it that is wrong.
    pub fn parse(file: &Path, text: &str) -> Result<(Self, Vec<Finding>), Refused> {
        let findings = Findings::new(file, text);
        let policy = document(&findings, text).and_then(|(table, at)| {
            let section = Section::new(&findings, "the policy", at, &table, None);
            read(&section)
        });
        findings.conclude(policy)
    }
}

fn read(section: &Section<'_>) -> Option<Policy> {
    let protect =
        section.choice("protect", &[("keyed", Protect::Keyed), ("listed", Protect::Listed)]);
    let protect = section.settled("protect", protect, Protect::Keyed);
    section.only_empty("homes");
    let cors = cors::read(section);
    let limited = rate_limit(section);
    let mut keys = HashMap::new();
    let auth = auth::read(section, &mut keys);
    let tenants = tenants(section, &mut keys);
    let admins = admins(section, &mut keys);
    let empty = DeTable::new();
    let (unlisted, operations) = operations(section, &empty, auth.as_ref());
    section.finish();
    let (unlisted, operations) = (unlisted?, operations?);
    let by_name =
        operations.iter().enumerate().map(|(index, it)| (it.name.clone(), index)).collect();
    Some(Policy {
        protect: protect?.value,
        rate_limit: limited?,
        cors: cors?,
        auth: auth?,
        tenants: tenants?,
        admins: admins?,
        naming: naming::digest(&unlisted, &operations),
        by_name,
        operations,
        unlisted,
    })
}

/// How many requests a tenant may send; nothing is limited where the setting is absent.
fn rate_limit(section: &Section<'_>) -> Option<Option<RateLimit>> {
    let Some(table) = section.table("rate_limit") else {
        return (!section.has("rate_limit")).then_some(None);
    };
    let per_second = table.require("per_second", table.number("per_second", 1..=RATE_MAX));
    let burst = table.number("burst", 1..=RATE_MAX);
    let burst = table.settled("burst", burst, per_second.as_ref().map_or(1, |it| it.value));
    table.finish();
    let count = |found: Located<u64>| NonZeroU32::new(u32::try_from(found.value).ok()?);
    Some(Some(RateLimit { per_second: count(per_second?)?, burst: count(burst?)? }))
}

/// The settings of unlisted routes, and the listed operations with the most literal routes first.
fn operations(
    section: &Section<'_>,
    empty: &DeTable<'_>,
    auth: Option<&AuthSettings>,
) -> (Option<Operation>, Option<Vec<Operation>>) {
    let defaults = section.table("defaults");
    let defaults_table = defaults.as_ref().map(Section::table_itself);
    let unlisted = match &defaults {
        Some(defaults) => operation::unlisted(defaults),
        None => operation::unlisted(&Section::new(
            section.findings,
            "[defaults]",
            section.at.clone(),
            empty,
            None,
        )),
    };
    if let (Some(auth), Some(unlisted)) = (auth, &unlisted) {
        auth::check_headers(section.findings, auth, &[(section.place("defaults"), unlisted)]);
    }
    let Some(tables) = section.tables("operation", "[[operation]]", defaults_table) else {
        return (unlisted, (!section.has("operation")).then(Vec::new));
    };
    let read: Vec<(Range<usize>, Option<Operation>)> = tables
        .into_iter()
        .map(|mut table| (table.at.clone(), operation::listed(&mut table)))
        .collect();
    let whole: Vec<(Range<usize>, &Operation)> =
        read.iter().filter_map(|(at, it)| it.as_ref().map(|it| (at.clone(), it))).collect();
    lint::between(section.findings, &whole);
    if let Some(auth) = auth {
        auth::check_headers(section.findings, auth, &whole);
    }
    let operations: Option<Vec<Operation>> = read.into_iter().map(|(_, it)| it).collect();
    let operations = operations.map(|mut operations| {
        operations.sort_by_key(|it| {
            std::cmp::Reverse(it.route.as_ref().map_or(0, super::Route::literals))
        });
        operations
    });
    (unlisted, operations)
}

/// Every digest of a credential so far, and whose it is.
pub(super) type Keys = HashMap<[u8; DIGEST_BYTES], String>;

fn tenants(section: &Section<'_>, keys: &mut Keys) -> Option<Vec<TenantSettings>> {
    let Some(tables) = section.tables("tenant", "[[tenant]]", None) else {
        return (!section.has("tenant")).then(Vec::new);
    };
    let mut names = HashSet::new();
    let mut tenants = Vec::with_capacity(tables.len());
    for mut table in tables {
        let name = name(&table);
        if let Some(name) = &name {
            table.label = format!("tenant \"{}\"", name.value);
            unique(&table, &mut names, name, "tenants");
        }
        table.refuse("home");
        let quota = quota(&table);
        let credentials = credentials(&table, keys);
        table.finish();
        tenants.push(name.zip(credentials).zip(quota).map(|((name, credentials), quota)| {
            TenantSettings { name: name.value.to_owned(), credentials, quota }
        }));
    }
    tenants.into_iter().collect()
}

/// How much a tenant may store; anything, where the setting is absent.
fn quota(tenant: &Section<'_>) -> Option<Quota> {
    let Some(table) = tenant.table("quota") else {
        return (!tenant.has("quota")).then(Quota::default);
    };
    let records = table.number("keys", 1..=QUOTA_KEYS_MAX);
    let bytes = table.size("bytes", QUOTA_BYTES_MAX);
    if bytes.as_ref().is_some_and(|bytes| bytes.value.as_u64() == 0) {
        table.wrong_value("bytes", "leaves no room for anything");
    }
    let given = ["keys", "bytes"].map(|name| table.has(name));
    if given == [false, false] {
        let message = "needs \"keys\" or \"bytes\"".to_owned();
        table.findings.error(&table.at, "missing", format!("{} {message}", table.label));
    }
    table.finish();
    let read = [records.is_some(), bytes.is_some()] == given;
    let quota =
        Quota { records: records.map(|it| it.value), bytes: bytes.map(|it| it.value.as_u64()) };
    read.then_some(quota)
}

/// The credentials of one tenant.
fn credentials(tenant: &Section<'_>, keys: &mut Keys) -> Option<Vec<CredentialSettings>> {
    let tables = tenant.tables("credentials", "credential", None);
    let tables = tenant.require("credentials", tables)?;
    let mut names = HashSet::new();
    let mut credentials = Vec::with_capacity(tables.len());
    for mut table in tables {
        let name = name(&table);
        if let Some(name) = &name {
            table.label = format!("credential \"{}\"", name.value);
            unique(&table, &mut names, name, "credentials of one tenant");
            if is_reserved(name.value) {
                let message = "is the credential of callers that prove themselves by [auth]";
                table.wrong_value("name", message);
            }
        }
        let digest = digest(&table, "api_key_sha256");
        if let (Some(digest), Some(name)) = (&digest, &name) {
            let label = format!("{}, credential \"{}\"", tenant.label, name.value);
            only_one(&table, keys, digest, label);
        }
        let uses = uses(&table);
        table.finish();
        credentials.push(name.zip(digest).zip(uses).map(|((name, digest), (gateway, claims))| {
            CredentialSettings {
                name: name.value.to_owned(),
                api_key_sha256: digest.value,
                gateway,
                claims,
            }
        }));
    }
    credentials.into_iter().collect()
}

fn admins(section: &Section<'_>, keys: &mut Keys) -> Option<Vec<AdminSettings>> {
    let Some(tables) = section.tables("admin", "[[admin]]", None) else {
        return (!section.has("admin")).then(Vec::new);
    };
    let mut names = HashSet::new();
    let mut admins = Vec::with_capacity(tables.len());
    for mut table in tables {
        let name = name(&table);
        if let Some(name) = &name {
            table.label = format!("admin \"{}\"", name.value);
            unique(&table, &mut names, name, "admins");
        }
        let digest = digest(&table, "token_sha256");
        if let Some(digest) = &digest {
            only_one(&table, keys, digest, table.label.clone());
        }
        let role = table.choice("role", &[("viewer", Role::Viewer), ("operator", Role::Operator)]);
        let role = table.require("role", role);
        table.finish();
        admins.push(name.zip(digest).zip(role).map(|((name, digest), role)| AdminSettings {
            name: name.value.to_owned(),
            token_sha256: digest.value,
            role: role.value,
        }));
    }
    admins.into_iter().collect()
}

/// Notes a secret that somebody else has as well.
pub(super) fn only_one(
    table: &Section<'_>,
    keys: &mut Keys,
    digest: &Located<[u8; DIGEST_BYTES]>,
    whose: String,
) {
    if let Some(earlier) = keys.insert(digest.value, whose) {
        let message = format!("this secret is that of {earlier} as well");
        table.findings.error(&digest.at, "duplicate", message);
    }
}

/// The name of a tenant, a credential or an admin.
fn name<'a>(section: &Section<'a>) -> Option<Located<&'a str>> {
    let name = section.require("name", section.text("name"))?;
    if name.value.is_empty() || name.value.len() > lint::NAME_MAX || !lint::is_plain(name.value) {
        section.wrong_value("name", &lint::name_rule());
        return None;
    }
    Some(name)
}

fn unique(section: &Section<'_>, names: &mut HashSet<String>, name: &Located<&str>, whose: &str) {
    if !names.insert(name.value.to_owned()) {
        let message = format!("two {whose} are named \"{}\"", name.value);
        section.findings.error(&name.at, "duplicate", message);
    }
}

pub(super) fn digest(
    section: &Section<'_>,
    setting: &'static str,
) -> Option<Located<[u8; DIGEST_BYTES]>> {
    let text = section.require(setting, section.text(setting))?;
    let Some(digest) = parse_digest(text.value) else {
        let message = "must be 64 hexadecimal digits: make it with `oncegate hash-key`";
        section.wrong_value(setting, message);
        return None;
    };
    Some(text.map(|_| digest))
}

fn parse_digest(text: &str) -> Option<[u8; DIGEST_BYTES]> {
    if text.len() != 2 * DIGEST_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = [0; DIGEST_BYTES];
    for (byte, at) in digest.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

/// Whether a credential may be used for the gateway, and for the claims API.
fn uses(section: &Section<'_>) -> Option<(bool, bool)> {
    let texts = section.require("use", section.texts("use"))?;
    let (mut gateway, mut claims) = (false, false);
    for text in &texts {
        match text.value {
            "gateway" => gateway = true,
            "claims" => claims = true,
            _ => {
                let message = "\"use\" must list \"gateway\" or \"claims\" or both";
                section.findings.error(&text.at, "wrong-value", message);
                return None;
            }
        }
    }
    if texts.is_empty() {
        section.wrong_value("use", "must list \"gateway\" or \"claims\" or both");
        return None;
    }
    Some((gateway, claims))
}
