//! Reads `rows.txt`: conditions on facts, and what they lead to.

use std::collections::BTreeMap;

/// What is true of one combination: the name of a fact and its value.
pub(crate) type Facts = BTreeMap<&'static str, &'static str>;

/// The rules as text.
const TEXT: &str = include_str!("rows.txt");

/// The whole table.
pub(crate) struct Rules {
    rows: Vec<(&'static str, Conditions)>,
    rules: Vec<Rule>,
    /// Where the rules for a row and a kind of command stand.
    places: BTreeMap<(&'static str, &'static str), Vec<usize>>,
}

/// One rule: where it holds, and what is expected there.
pub(crate) struct Rule {
    /// The rule as it stands in the file.
    pub(crate) line: &'static str,
    record: Conditions,
    command: Conditions,
    /// Word for the expected answer.
    pub(crate) answer: &'static str,
    /// Word for the expected record.
    pub(crate) after: &'static str,
}

type Conditions = Vec<(&'static str, Vec<&'static str>)>;

impl Rules {
    /// The rules of `rows.txt`.
    pub(crate) fn read() -> Self {
        let mut read = Self { rows: Vec::new(), rules: Vec::new(), places: BTreeMap::new() };
        // The rules live as long as the test does, so they may as well live for ever.
        let text: &'static str = TEXT.replace("\\\n", "").leak();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(row) = line.strip_prefix("row ") {
                let (name, record) = row.split_once('=').expect("a row is `row name = record`");
                read.rows.push((name.trim(), conditions(record)));
                continue;
            }
            let parts: Vec<_> = line.split('|').map(str::trim).collect();
            let [place, command, answer, after] = parts[..] else { panic!("four parts: {line}") };
            let (row, record) = place.split_once(' ').unwrap_or((place, ""));
            assert!(read.rows.iter().any(|(name, _)| *name == row), "no such row: {line}");
            let (kind, command) = command.split_once(' ').unwrap_or((command, ""));
            let (record, command) = (facts(record), facts(command));
            read.places.entry((row, kind)).or_default().push(read.rules.len());
            read.rules.push(Rule { line, record, command, answer, after });
        }
        read
    }

    /// How many rules there are.
    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// The rule at `index`.
    pub(crate) fn at(&self, index: usize) -> &Rule {
        &self.rules[index]
    }

    /// The only row for a record.
    pub(crate) fn row(&self, record: &Facts) -> &'static str {
        let rows: Vec<_> = self.rows.iter().filter(|(_, when)| hold(when, record)).collect();
        let [(row, _)] = rows[..] else { panic!("{} rows for {record:?}", rows.len()) };
        row
    }

    /// Where the only rule for a combination stands.
    pub(crate) fn only(&self, record: &Facts, command: &Facts) -> usize {
        let mut rules = self.places[&(self.row(record), command["command"])].clone();
        rules.retain(|index| {
            let rule = &self.rules[*index];
            hold(&rule.record, record) && hold(&rule.command, command)
        });
        let [only] = rules[..] else {
            let lines: Vec<_> = rules.iter().map(|index| self.rules[*index].line).collect();
            panic!("{} rules for {record:?} and {command:?}: {lines:#?}", rules.len())
        };
        only
    }
}

/// A kind of record, then conditions: `over window=in,last`.
fn conditions(text: &'static str) -> Conditions {
    let text = text.trim();
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut conditions = vec![("is", vec![first])];
    conditions.extend(facts(rest));
    conditions
}

fn facts(text: &'static str) -> Conditions {
    text.split_whitespace()
        .map(|word| {
            let (fact, values) = word.split_once('=').expect("a condition is `fact=value`");
            (fact, values.split(',').collect())
        })
        .collect()
}

/// Whether all conditions hold. A condition on a fact that the combination does not have is a
/// mistake in the rules.
fn hold(conditions: &Conditions, facts: &Facts) -> bool {
    conditions.iter().all(|(fact, values)| match facts.get(fact) {
        Some(value) => values.contains(value),
        None => panic!("{facts:?} says nothing about {fact}"),
    })
}
