//! The lines in which two texts differ.

/// Lines of `old` and `new` in order: `-` only in the old one, `+` only in the new one.
pub(crate) fn of(old: &str, new: &str) -> String {
    let old: Vec<_> = old.lines().collect();
    let new: Vec<_> = new.lines().collect();
    let common = common(&old, &new);
    let (mut i, mut j) = (0, 0);
    let mut shown = String::new();
    while i < old.len() || j < new.len() {
        let line = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            format!("  {}\n", old[i - 1])
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            format!("- {}\n", old[i - 1])
        } else {
            j += 1;
            format!("+ {}\n", new[j - 1])
        };
        shown.push_str(&line);
    }
    shown
}

/// How many lines the rests of both texts from `[i][j]` have in common, in order.
fn common(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    common
}
