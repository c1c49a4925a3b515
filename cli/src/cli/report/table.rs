//! Tables at a terminal.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How a table gives way where the terminal is too narrow for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Layout {
    /// Columns of names, which may lose their middle.
    pub(crate) names: &'static [usize],
    /// Columns that may be left out, the first of them first.
    pub(crate) spare: &'static [usize],
}

/// No name is cut to fewer characters.
const SHORTEST: usize = 20;

/// Rows with aligned columns, which two spaces separate. Lines do not end with spaces.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // Formatting has room for so many characters, and a file can have a longer name.
    const WIDEST: usize = u16::MAX as usize;
    let widths: Vec<usize> = (0..columns).map(|column| width(rows, column).min(WIDEST)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// As [`table`], in lines of so many characters: names lose their middle, but no two become alike; then columns are left out,
/// which the last line names; then each row's last cell has a line of its own. Where there is no terminal there is no width,
/// and everything stands as it is.
pub(crate) fn fitted(rows: &[Vec<String>], layout: Layout, columns: Option<usize>) -> String {
    let Some(most) = columns else { return table(rows) };
    let mut left_out: Vec<usize> = vec![];
    let text = loop {
        let kept = |column: &usize| !left_out.contains(column);
        let mut fitting: Vec<Vec<String>> = rows.to_vec();
        let places = || (0..rows.first().map_or(0, Vec::len)).filter(kept);
        let total = |rows: &[Vec<String>]| {
            places().map(|column| width(rows, column) + 2).sum::<usize>().saturating_sub(2)
        };
        for column in layout.names.iter().filter(|column| kept(column)) {
            let excess = total(&fitting).saturating_sub(most);
            let wanted = width(&fitting, *column).saturating_sub(excess).max(SHORTEST);
            if excess > 0 {
                cut(&mut fitting, *column, wanted);
            }
        }
        let is_wide = total(&fitting) > most;
        let shown: Vec<Vec<String>> = fitting
            .iter()
            .map(|row| places().filter_map(|column| row.get(column).cloned()).collect())
            .collect();
        match layout.spare.get(left_out.len()) {
            Some(spare) if is_wide => left_out.push(*spare),
            _ if is_wide => break last_below(&shown),
            _ => break table(&shown),
        }
    };
    let heads = rows.first();
    let names: Vec<&str> =
        left_out.iter().filter_map(|column| Some(heads?.get(*column)?.as_str())).collect();
    match names.is_empty() {
        true => text,
        false => format!("{text}\n(too narrow for: {})", names.join(", ")),
    }
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Cuts the cells of a column in their middle. Names that would become alike keep what they differ in as well, and those that
/// are alike then stay whole.
fn cut(rows: &mut [Vec<String>], column: usize, chars: usize) {
    let names: BTreeSet<&String> = rows.iter().filter_map(|row| row.get(column)).collect();
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in names {
        alike.entry(without_middle(name, chars)).or_default().push(name);
    }
    let mut short: HashMap<String, String> = HashMap::new();
    for (cut, names) in alike {
        match names.as_slice() {
            [name] => _ = short.insert((*name).to_owned(), cut),
            names => short.extend(with_difference(names, chars)),
        }
    }
    let mut uses: HashMap<&String, usize> = HashMap::new();
    for cut in short.values() {
        *uses.entry(cut).or_default() += 1;
    }
    for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
        if let Some(cut) = short.get(cell)
            && uses.get(cut) == Some(&1)
        {
            cell.clone_from(cut);
        }
    }
}

/// Each of several names, and it with a start, what is between that with which all begin and that with which all end, and an
/// end: in so many characters, if what is between leaves room.
fn with_difference<'a>(
    names: &'a [&str],
    chars: usize,
) -> impl Iterator<Item = (String, String)> + 'a {
    let all: Vec<Vec<char>> = names.iter().map(|name| name.chars().collect()).collect();
    let shortest = all.iter().map(Vec::len).min().unwrap_or(0);
    let first = all.first().cloned().unwrap_or_default();
    let agree =
        |at: &dyn Fn(&Vec<char>) -> Option<char>| all.iter().all(|name| at(name) == at(&first));
    let start = (0..shortest).take_while(|at| agree(&|name| name.get(*at).copied())).count();
    let end = (0..shortest - start)
        .take_while(|at| agree(&|name| name.iter().rev().nth(*at).copied()))
        .count();
    names.iter().zip(all).map(move |(name, all)| {
        let length = all.len();
        let between = length - start - end;
        // Half of what room is left for the words about the difference, and the rest for both ends of the name.
        let room = chars.saturating_sub(between + 2);
        let (about, at_end) = (room / 4, room / 4);
        let kept = |at: usize| {
            at < at_end
                || (at + about >= start && at < length - end + about)
                || at >= length - at_end
        };
        let mut cut = String::new();
        for (at, char) in all.into_iter().enumerate() {
            match kept(at) {
                true => cut.push(char),
                false if cut.ends_with('…') => {}
                false => cut.push('…'),
            }
        }
        ((*name).to_owned(), cut)
    })
}

/// The text with so many characters at most, where the middle is left out.
pub(crate) fn without_middle(text: &str, chars: usize) -> String {
    let length = text.chars().count();
    if length <= chars {
        return text.into();
    }
    let end = chars / 2;
    let start = chars.saturating_sub(1 + end);
    let tail: String = text.chars().skip(length - end).collect();
    format!("{}…{tail}", text.chars().take(start).collect::<String>())
}

/// The last cell of each row on a line of its own.
fn last_below(rows: &[Vec<String>]) -> String {
    let firsts: Vec<Vec<String>> =
        rows.iter().map(|row| row.split_last().map_or(vec![], |(_, rest)| rest.to_vec())).collect();
    let lines = table(&firsts);
    let pairs = lines.lines().zip(rows).map(|(line, row)| {
        let last = row.last().map_or("", String::as_str);
        format!("{line}\n    {last}")
    });
    pairs.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[&str]) -> Vec<Vec<String>> {
        let row =
            |name: &&str| vec![(*name).into(), "1".into(), "FLOAT16".into(), "3 rounded".into()];
        names.iter().map(row).collect()
    }

    const LAYOUT: Layout = Layout { names: &[0], spare: &[1] };

    #[test]
    fn names_are_whole_without_a_terminal() {
        let name = "a/very/long/name/of/a/node/".repeat(9);
        assert!(fitted(&rows(&[&name]), LAYOUT, None).contains(&name));
    }

    #[test]
    fn names_lose_their_middle_and_stay_different() {
        let name = |end: &str| format!("/model/encoder/layers/normalisation/{end}");
        let (a, b) = (name("Cast_1"), name("Cast_2"));
        let text = fitted(&rows(&[&a, &b]), LAYOUT, Some(50));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 50), "{text}");
        assert!(lines[0].contains("…") && lines[0] != lines[1], "{text}");
        // These differ in the middle, which they keep.
        let name = |layer: &str| {
            format!("{}/layer_{layer}/{}", "model/".repeat(8), "attention/".repeat(4))
        };
        let names = [name("1"), name("2"), name("17")];
        let text = fitted(&rows(&names.each_ref().map(String::as_str)), LAYOUT, Some(50));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 50), "{text}");
        assert!(lines[0].contains("_1/") && lines[1].contains("_2/") && lines[2].contains("_17/"));
        // What is between is longer than there is room for.
        let names =
            ["x", "y"].map(|end| format!("{}{}{}", "a".repeat(30), end.repeat(60), "b".repeat(30)));
        let text = fitted(&rows(&names.each_ref().map(String::as_str)), LAYOUT, Some(50));
        assert!(names.iter().all(|name| text.contains(&name[30..90])), "{text}");
    }

    #[test]
    fn columns_go_before_lines_wrap() {
        let text = fitted(&rows(&[&"n".repeat(30)]), LAYOUT, Some(41));
        assert!(text.lines().next().is_some_and(|line| !line.contains("  1  ")), "{text}");
        assert!(text.ends_with("(too narrow for: 1)"), "{text}");
        let text = fitted(&rows(&[&"n".repeat(30)]), LAYOUT, Some(30));
        assert!(text.contains("\n    3 rounded"), "{text}");
    }

    #[test]
    fn a_cut_name_has_as_many_characters_as_wanted() {
        for chars in 1..30 {
            assert_eq!(without_middle(&"ä".repeat(40), chars).chars().count(), chars);
        }
    }
}
