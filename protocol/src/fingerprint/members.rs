//! The members of the objects that are being written, and how they are put in order.
//!
//! A member is a place in the buffer where the document is written: `"name":value`. The order is
//! that of these texts, byte by byte. No text of a name is the beginning of another one (it ends
//! with the only quote that is not escaped), so that the values never decide between two names.

use std::cmp::Ordering;

/// The members of the open objects, innermost last.
#[derive(Default)]
pub(super) struct Members {
    list: Vec<Member>,
    objects: Vec<Object>,
    moved: Vec<u8>,
}

/// A member that is written, or, when it is the last one of its object, is being written.
#[derive(Clone, Copy)]
struct Member {
    /// The first bytes of the name's text as a number, so that most comparisons need no look at it.
    head: u64,
    start: u32,
    end: u32,
}

#[derive(Clone, Copy)]
struct Object {
    /// Where its members begin in the list.
    first: usize,
    /// Whether every member so far comes after the one before it; none then has the name of
    /// another.
    in_order: bool,
}

impl Members {
    pub(super) fn begin_object(&mut self) {
        self.objects.push(Object { first: self.list.len(), in_order: true });
    }

    /// Begins a member of the innermost object; its name has been written from `start` to the end
    /// of `out`. `None` where that is further than four gigabytes.
    pub(super) fn begin_member(&mut self, out: &[u8], start: usize) -> Option<()> {
        let name = &out[start..];
        let start = u32::try_from(start).ok()?;
        let member = Member { head: head(name), start, end: start };
        let object = self.objects.last_mut()?;
        if object.in_order
            && let Some(previous) = self.list[object.first..].last()
        {
            let order = previous.head.cmp(&member.head);
            object.in_order = order.then_with(|| previous.text(out).cmp(name)) == Ordering::Less;
        }
        self.list.push(member);
        Some(())
    }

    /// Ends the member that began last: its value reaches to the end of `out`. `None` where that is
    /// further than four gigabytes.
    pub(super) fn end_member(&mut self, out: &[u8]) -> Option<()> {
        self.list.last_mut()?.end = u32::try_from(out.len()).ok()?;
        Some(())
    }

    /// Ends the innermost object, whose last member reaches to the end of `out`: puts its members
    /// in order there. `None` where two of them have the same name.
    pub(super) fn end_object(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let object = self.objects.pop()?;
        if !object.in_order {
            let members = &mut self.list[object.first..];
            let start = members[0].start as usize;
            members.sort_unstable_by(|one, other| {
                one.head.cmp(&other.head).then_with(|| one.text(out).cmp(other.text(out)))
            });
            if members.windows(2).any(|pair| pair[0].has_name_of(&pair[1], out)) {
                return None;
            }
            self.moved.clear();
            self.moved.extend_from_slice(&out[start..]);
            out.truncate(start);
            for (nth, member) in members.iter().enumerate() {
                if nth > 0 {
                    out.push(b',');
                }
                let range = member.start as usize - start..member.end as usize - start;
                out.extend_from_slice(&self.moved[range]);
            }
        }
        self.list.truncate(object.first);
        Some(())
    }
}

impl Member {
    fn text<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.start as usize..self.end as usize]
    }

    fn has_name_of(&self, other: &Self, out: &[u8]) -> bool {
        self.head == other.head && name(self.text(out)) == name(other.text(out))
    }
}

/// The first bytes of a name's text behind its quote; zeros where it is shorter. The text holds no
/// zero byte, so that the order of heads is that of the texts.
fn head(name: &[u8]) -> u64 {
    let mut head = [0; 8];
    let length = head.len().min(name.len() - 1);
    head[..length].copy_from_slice(&name[1..=length]);
    u64::from_be_bytes(head)
}

/// The text of the name with which the text of a member begins.
fn name(member: &[u8]) -> &[u8] {
    let mut at = 1;
    while member[at] != b'"' {
        at += if member[at] == b'\\' { 2 } else { 1 };
    }
    &member[..=at]
}
