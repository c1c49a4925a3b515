use super::FIXES;

#[test]
fn each_fix_cites_its_row() {
    let rows = include_str!("../../../../docs/upstream.md");
    for fix in FIXES {
        assert!(rows.contains(&format!("\n| {} |", fix.row)), "{:?}: {}", fix.operators, fix.row);
        assert!(!fix.reason.is_empty());
    }
}
