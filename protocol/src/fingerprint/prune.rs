//! What is left of a JSON document where rules say what counts of it.

use super::rules::{Place, Step};
use super::scan::{end_of_string, end_of_value};
use super::string::write_text;

/// Pointers that are still being followed, one bit each.
type Followed = u32;

/// The pointers of rules, in the form in which names are compared.
pub(super) struct Pointers(Vec<Vec<Option<Vec<u8>>>>);

/// Which values a document keeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// All but those that are pointed at.
    AllBut,
    /// Those that are pointed at, and what lies on the way to them. A value on the way that nothing
    /// leads on from, such as a number in the place of an object, is kept as well: where a document
    /// does not have the form that the rules were made for, too much counts rather than too little.
    Only,
}

impl Pointers {
    /// Those of the places that are pointers.
    pub(super) fn of(places: &[Place]) -> Self {
        let steps = |place: &Place| match place {
            Place::Pointer(steps) => Some(steps.iter().map(Step::literal).collect()),
            _ => None,
        };
        Self(places.iter().filter_map(steps).take(Followed::BITS as usize).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The document that is left of `text`, a canonical one. An element that is left out leaves no
    /// trace: those behind it move up.
    pub(super) fn prune(&self, text: &[u8], keep: Keep) -> Vec<u8> {
        let out = Vec::with_capacity(text.len());
        let mut pruner = Pruner { pointers: self, keep, text, at: 0, out };
        let all = (1u64 << self.0.len()) - 1;
        pruner.value(all as Followed, 0);
        pruner.out
    }

    /// Which of the `followed` pointers take their next step to this member, and whether one of
    /// them ends there.
    fn step(&self, followed: Followed, depth: usize, name: &[u8]) -> (Followed, bool) {
        let (mut on, mut hit) = (0, false);
        for (nth, steps) in self.0.iter().enumerate() {
            let bit = 1 << nth;
            let Some(step) = steps.get(depth).filter(|_| followed & bit != 0) else { continue };
            if step.as_ref().is_none_or(|step| step == name) {
                on |= bit;
                hit |= steps.len() == depth + 1;
            }
        }
        (on, hit)
    }
}

impl Step {
    /// The canonical text of the name; `None` for any.
    fn literal(&self) -> Option<Vec<u8>> {
        match self {
            Self::Any => None,
            Self::Named(name) => {
                let mut literal = Vec::with_capacity(name.len() + 2);
                write_text(name, &mut literal);
                Some(literal)
            }
        }
    }
}

struct Pruner<'a> {
    pointers: &'a Pointers,
    keep: Keep,
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
}

impl Pruner<'_> {
    /// Writes what is left of the next value. Documents nest at most 128 deep, so that this may
    /// call itself.
    fn value(&mut self, followed: Followed, depth: usize) {
        if !matches!(self.text[self.at], b'{' | b'[') {
            return self.copy(end_of_value(self.text, self.at));
        }
        let is_object = self.text[self.at] == b'{';
        let (start, mut index) = (self.out.len() + 1, 0_usize);
        self.copy(self.at + 1);
        while !matches!(self.text[self.at], b'}' | b']') {
            if self.text[self.at] == b',' {
                self.at += 1;
            }
            let member = self.at;
            let (on, hit) = if is_object {
                let end = end_of_string(self.text, self.at);
                self.at = end + 1;
                self.pointers.step(followed, depth, &self.text[member..end])
            } else {
                self.pointers.step(followed, depth, format!("\"{index}\"").as_bytes())
            };
            index += 1;
            self.member(member, start, (on, hit), depth);
        }
        self.copy(self.at + 1);
    }

    /// Writes what is left of a member that begins at `member`, its value where the pruner stands.
    fn member(&mut self, member: usize, start: usize, next: (Followed, bool), depth: usize) {
        let whole = match (self.keep, next) {
            (Keep::AllBut, (_, true)) | (Keep::Only, (0, _)) => {
                self.at = end_of_value(self.text, self.at);
                return;
            }
            (Keep::AllBut, (0, _)) | (Keep::Only, (_, true)) => true,
            _ => false,
        };
        if self.out.len() > start {
            self.out.push(b',');
        }
        let value = self.at;
        self.at = member;
        self.copy(value);
        if whole {
            self.copy(end_of_value(self.text, value));
        } else {
            self.value(next.0, depth + 1);
        }
    }

    fn copy(&mut self, end: usize) {
        self.out.extend_from_slice(&self.text[self.at..end]);
        self.at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pruned(document: &str, keep: Keep, pointers: &[&str]) -> String {
        let places: Vec<_> = pointers.iter().map(|text| Place::parse(text).unwrap()).collect();
        String::from_utf8(Pointers::of(&places).prune(document.as_bytes(), keep)).unwrap()
    }

    #[test]
    fn ignored_values_are_left_out() {
        let document = r#"{"a":{"b":1,"c":[{"d":1,"e":"}"},{"d":2},3]},"f":"x\",","g":[1,2]}"#;
        for (pointers, left) in [
            (&["/x", "/a/x", "/f/x", "/g/9", "/a/b/c"][..], document),
            (&["/a", "/g"], r#"{"f":"x\","}"#),
            (&["/f"], r#"{"a":{"b":1,"c":[{"d":1,"e":"}"},{"d":2},3]},"g":[1,2]}"#),
            (&["/a/c/*/d"], r#"{"a":{"b":1,"c":[{"e":"}"},{},3]},"f":"x\",","g":[1,2]}"#),
            (&["/a/c/1", "/g/0"], r#"{"a":{"b":1,"c":[{"d":1,"e":"}"},3]},"f":"x\",","g":[2]}"#),
            (&["/*/b", "/f", "/*/*/*/e", "/g"], r#"{"a":{"c":[{"d":1},{"d":2},3]}}"#),
            (&["/*"], "{}"),
        ] {
            assert_eq!(pruned(document, Keep::AllBut, pointers), left, "{pointers:?}");
        }
    }

    #[test]
    fn only_what_is_pointed_at_stays() {
        let document = r#"{"a":{"b":1,"c":[{"d":1,"e":5},{"e":2}]},"f":"x","g":[1,[2],3]}"#;
        for (pointers, left) in [
            (&["/f"][..], r#"{"f":"x"}"#),
            (&["/a/b", "/g/1"], r#"{"a":{"b":1},"g":[[2]]}"#),
            (&["/a/c/*/d"], r#"{"a":{"c":[{"d":1},{}]}}"#),
            (&["/a/*"], r#"{"a":{"b":1,"c":[{"d":1,"e":5},{"e":2}]}}"#),
            (&["/a", "/a/b"], r#"{"a":{"b":1,"c":[{"d":1,"e":5},{"e":2}]}}"#),
            (&["/x"], "{}"),
            (&["/f/x"], r#"{"f":"x"}"#),
        ] {
            assert_eq!(pruned(document, Keep::Only, pointers), left, "{pointers:?}");
        }
        assert_eq!(pruned("[1,2,3]", Keep::Only, &["/1"]), "[2]");
        assert_eq!(pruned("5", Keep::Only, &["/1"]), "5");
    }

    #[test]
    fn names_are_compared_decoded() {
        let document = r#"{"":1,"a/b":2,"c\"\n":3,"~":4,"é":5}"#;
        let pointers = ["/", "/a~1b", "/c\"\n", "/~0", "/é"];
        assert_eq!(pruned(document, Keep::AllBut, &pointers), "{}");
        assert_eq!(pruned(document, Keep::Only, &pointers), document);
    }
}
