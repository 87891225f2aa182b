//! The table of layers in a module's documentation.
//!
//! It stands under a heading `# Layers`; each row names its modules in backticks in the
//! second column, and a later row may import from earlier rows only.

/// The rows of a table, from the ground up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads the table from a module's inner documentation, if there is one.
    pub(super) fn parse(source: &str) -> Option<Self> {
        let mut lines = source
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(str::trim)
            .skip_while(|line| *line != "# Layers")
            .skip(1)
            .skip_while(|line| !line.starts_with('|') && !line.starts_with("# "))
            .take_while(|line| line.starts_with('|'));
        // The heading and the line below it.
        let (_heading, _rule) = (lines.next()?, lines.next()?);
        let rows = lines.map(modules_of_row).collect();
        Some(Self { rows })
    }

    /// The row of a module, counted from the ground.
    pub(super) fn row(&self, module: &str) -> Option<usize> {
        self.rows
            .iter()
            .position(|row| row.iter().any(|name| name == module))
    }

    /// All modules that the table names.
    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flatten().map(String::as_str)
    }
}

/// The names in backticks in the second column.
fn modules_of_row(line: &str) -> Vec<String> {
    let column = line.split('|').nth(2).unwrap_or_default();
    column
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! A crate.
//!
//! # Layers
//!
//! From the ground up.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `platform` | system calls, `clock` |
//! | 2 | `model`, `words` | vocabulary |
//!
//! | another | `table` |
mod platform;
";

    #[test]
    fn modules_are_read_from_the_second_column_in_order() {
        let table = Table::parse(SOURCE).unwrap();
        let modules: Vec<_> = table.modules().collect();
        assert_eq!(modules, ["platform", "model", "words"]);
        assert_eq!(table.row("platform"), Some(0));
        assert_eq!(table.row("words"), Some(1));
        assert_eq!(table.row("clock"), None);
    }

    #[test]
    fn documentation_without_the_heading_has_no_table() {
        assert_eq!(Table::parse("//! | 1 | `a` | b |\nmod a;\n"), None);
        assert_eq!(Table::parse(&format!("mod a;\n{SOURCE}")), None);
    }
}
