//! The outer values of a canonical document, with their pointers.

use super::MEMBERS_MAX;
use crate::fingerprint::rules::escaped;
use crate::fingerprint::scan::{end_of_string, end_of_value};

/// How deep values are looked for; the document itself is the first level. Bodies of requests are
/// seldom deeper, and the text of a value is hashed once for each level around it.
const LEVELS: usize = 5;

/// The longest pointer of a member.
const POINTER_BYTES_MAX: usize = 256;

/// A value of a document.
pub(super) struct Member<'t> {
    /// Where it stands in the document.
    pub(super) pointer: String,
    /// Its text.
    pub(super) text: &'t [u8],
    /// How many members it has, for an object or a list whose members were looked at.
    pub(super) count: Option<usize>,
    /// How many of these are among the members found.
    pub(super) told: usize,
    /// The member that it is in, by its place among the members found.
    pub(super) parent: Option<usize>,
}

/// The first [`MEMBERS_MAX`] values of a document, level by level.
pub(super) fn outer_members(text: &[u8]) -> Vec<Member<'_>> {
    let mut walk = Walk { text, levels: Default::default() };
    walk.value(0, 0, Some(String::new()), None);
    let mut members: Vec<Member<'_>> = Vec::new();
    let mut before = 0;
    for level in walk.levels {
        let start = members.len();
        for mut member in level {
            // Parents are counted within their own level until here.
            member.parent = member.parent.map(|parent| before + parent);
            if members.len() < MEMBERS_MAX {
                if let Some(parent) = member.parent {
                    members[parent].told += 1;
                }
                members.push(member);
            }
        }
        before = start;
    }
    members
}

struct Walk<'t> {
    text: &'t [u8],
    levels: [Vec<Member<'t>>; LEVELS],
}

impl Walk<'_> {
    /// Notes the value at `at`, and those within it, unless it has no pointer; returns where it
    /// ends. There is room for it at its level.
    fn value(
        &mut self,
        at: usize,
        level: usize,
        pointer: Option<String>,
        parent: Option<usize>,
    ) -> usize {
        let Some(pointer) = pointer else { return end_of_value(self.text, at) };
        let nth = self.levels[level].len();
        let member = Member { pointer: pointer.clone(), text: &[], count: None, told: 0, parent };
        self.levels[level].push(member);
        let container = matches!(self.text[at], b'{' | b'[');
        let (end, count) = if container && level + 1 < LEVELS {
            let (end, count) = self.members(at, level, &pointer, nth);
            (end, Some(count))
        } else {
            (end_of_value(self.text, at), None)
        };
        let member = &mut self.levels[level][nth];
        (member.text, member.count) = (&self.text[at..end], count);
        end
    }

    /// Notes the members of the container at `at`; returns where it ends and how many it has.
    fn members(&mut self, at: usize, level: usize, pointer: &str, nth: usize) -> (usize, usize) {
        let is_object = self.text[at] == b'{';
        let (mut at, mut count) = (at + 1, 0);
        while !matches!(self.text[at], b'}' | b']') {
            at += usize::from(self.text[at] == b',');
            let name = at;
            if is_object {
                at = end_of_string(self.text, at) + 1;
            }
            count += 1;
            if self.levels[level + 1].len() == MEMBERS_MAX {
                at = end_of_value(self.text, at);
                continue;
            }
            let name = match is_object {
                true => decoded(&self.text[name..at - 1]),
                false => Some((count - 1).to_string()),
            };
            let member = name.map(|name| format!("{pointer}/{}", escaped(&name)));
            let member = member.filter(|pointer| pointer.len() <= POINTER_BYTES_MAX);
            at = self.value(at, level + 1, member, Some(nth));
        }
        (at + 1, count)
    }
}

/// The name that a canonical string literal stands for; `None` for one that is too long for a
/// pointer.
fn decoded(literal: &[u8]) -> Option<String> {
    let fits = literal.len() <= POINTER_BYTES_MAX;
    fits.then(|| serde_json::from_slice(literal).ok()).flatten()
}
