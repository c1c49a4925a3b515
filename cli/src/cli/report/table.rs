//! Tables at a terminal.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

/// How a table gives way where the terminal is too narrow for it.
#[derive(Clone, Copy, Default)]
pub(crate) struct TableLayout {
    /// Columns of names, which may take several lines.
    pub(crate) names: &'static [usize],
    /// Columns that may be left out, the first of them first.
    pub(crate) spare: &'static [usize],
}

/// No name is wrapped into fewer characters.
const SHORTEST: usize = 20;
/// Between two columns.
const GAP: usize = 2;

/// Rows with aligned columns, which two spaces separate. Lines do not end with spaces. This is for
/// programs as well, so a name of any length stays on its line, which comfy-table does not promise.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // Formatting has room for so many characters, and a file can have a longer name.
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0).min(u16::MAX.into())
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// As [`table`], with so many characters for each column.
fn drawn(rows: &[Vec<String>], widths: &[usize]) -> String {
    let mut table = table_of(rows);
    for (column, width) in table.column_iter_mut().zip(widths) {
        let width = u16::try_from(width + GAP).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn table_of(rows: &[Vec<String>]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.add_rows(rows);
    table.column_iter_mut().for_each(|column| _ = column.set_padding((0, GAP as u16)));
    table
}

/// As [`table`], in lines of so many characters: names take several lines, then columns are left
/// out, which the last line names; then each row's last cell has a line of its own. Where there is
/// no terminal there is no width, and everything stands as it is.
pub(crate) fn fitted(rows: &[Vec<String>], layout: TableLayout, columns: Option<usize>) -> String {
    let Some(most) = columns else { return table(rows) };
    let whole = table_of(rows).column_max_content_widths();
    let whole: Vec<usize> = whole.into_iter().map(usize::from).collect();
    let mut left_out: Vec<usize> = vec![];
    loop {
        let is_shown = |column: &usize| !left_out.contains(column);
        let shown: Vec<usize> = (0..whole.len()).filter(is_shown).collect();
        let mut widths: Vec<usize> = shown.iter().filter_map(|c| whole.get(*c).copied()).collect();
        let total: usize = widths.iter().map(|width| width + GAP).sum();
        let mut excess = total.saturating_sub(GAP + most);
        for (width, _) in widths.iter_mut().zip(&shown).filter(|(_, c)| layout.names.contains(c)) {
            let wanted = width.saturating_sub(excess).max(SHORTEST.min(*width));
            excess -= *width - wanted;
            *width = wanted;
        }
        let cells = |row: &Vec<String>| shown.iter().filter_map(|c| row.get(*c).cloned()).collect();
        let fitting: Vec<Vec<String>> = rows.iter().map(cells).collect();
        let text = match layout.spare.get(left_out.len()) {
            Some(spare) if excess > 0 => {
                left_out.push(*spare);
                continue;
            }
            None if excess > 0 => last_below(&fitting, &widths),
            _ => drawn(&fitting, &widths),
        };
        let head = |column: &usize| Some(rows.first()?.get(*column)?.as_str());
        let names: Vec<&str> = left_out.iter().filter_map(head).collect();
        let more = format!("\n(too narrow for: {})", names.join(", "));
        return text + if names.is_empty() { "" } else { &more };
    }
}

/// The last cell of each row on a line of its own.
fn last_below(rows: &[Vec<String>], widths: &[usize]) -> String {
    let row = |row: &Vec<String>| {
        let (last, firsts) = row.split_last()?;
        Some(format!("{}\n    {last}", drawn(&[firsts.to_vec()], widths)))
    };
    rows.iter().filter_map(row).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[&str]) -> Vec<Vec<String>> {
        let row =
            |name: &&str| vec![(*name).into(), "1".into(), "FLOAT16".into(), "3 rounded".into()];
        names.iter().map(row).collect()
    }

    const LAYOUT: TableLayout = TableLayout { names: &[0], spare: &[1] };

    #[test]
    fn names_are_whole_without_a_terminal() {
        let name = "a/very/long/name/of/a/node/".repeat(9);
        assert!(fitted(&rows(&[&name]), LAYOUT, None).contains(&name));
        let lines = table(&[vec!["a".into(), "bc".into()], vec!["def".into(), "g".into()]]);
        assert_eq!(lines, "a    bc\ndef  g");
    }

    #[test]
    fn names_take_several_lines_and_lose_nothing() {
        let name = |end: &str| format!("/model/encoder/layers/normalisation/{end}");
        let (a, b) = (name("Cast_1"), name("Cast_2"));
        let text = fitted(&rows(&[&a, &b]), LAYOUT, Some(50));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 50), "{text}");
        let names: String = lines.iter().filter_map(|line| line.split("  ").next()).collect();
        assert_eq!(names, a + &b, "{text}");
    }

    #[test]
    fn columns_go_before_lines_wrap() {
        let text = fitted(&rows(&[&"n".repeat(30)]), LAYOUT, Some(41));
        assert!(text.lines().next().is_some_and(|line| !line.contains("  1  ")), "{text}");
        assert!(text.ends_with("(too narrow for: 1)"), "{text}");
        let text = fitted(&rows(&[&"n".repeat(30)]), LAYOUT, Some(30));
        assert!(text.contains("\n    3 rounded"), "{text}");
    }
}
