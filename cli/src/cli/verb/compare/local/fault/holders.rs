//! Nodes that hold bodies, where what is wrong is how a body hangs together with its node.

use super::super::site::Site;
use super::super::trace::Ran;
use super::Fault;
use super::attributes::attributes;
use crate::cli::found::verdict::FaultKind;

impl Fault<'_> {
    /// The loop in whose body a site is, if that gives its body other values than the reference's
    /// does.
    pub(super) fn holder<'b>(&'b self, site: &Site) -> Option<(&'b Ran, (FaultKind, String))> {
        let (path, _) = site.converted.rsplit_once('/')?;
        let (node, _) = path.rsplit_once('.')?;
        let node = node.rsplit_once('/').map_or(node, |(_, node)| node);
        let holders = self.b.nodes.iter().filter(|ran| ran.name == node && !ran.inside.is_empty());
        holders.into_iter().find_map(|ran| {
            let partner = self.partner(ran).filter(|partner| partner.op == ran.op)?;
            let found = attributes(partner, ran, "").or_else(|| self.turned(partner, ran))?;
            Some((ran, found))
        })
    }

    /// Whether what a body makes stands in another order.
    fn turned(&self, partner: &Ran, ran: &Ran) -> Option<(FaultKind, String)> {
        let link = |is: &String| self.links.get(is).map(|link| link.reference.clone());
        let was = |is: &String| link(is).unwrap_or_else(|| is.clone());
        let is_other = |(reference, is): (&String, &String)| {
            was(is) != *reference && partner.inside.contains(&was(is))
        };
        let is_turned = partner.inside.len() == ran.inside.len()
            && partner.inside.iter().zip(&ran.inside).any(is_other);
        let text = format!(
            "what its body makes stands in another order: `{}`, and `{}` in the reference",
            ran.inside.join("`, `"),
            partner.inside.join("`, `")
        );
        is_turned.then_some((FaultKind::InputOrder, text))
    }

    /// The node of the reference's region that is the only one there of an operator, as a node is
    /// in its own.
    pub(super) fn only_one_of<'b>(ran: &Ran, [a, b]: [&[&'b Ran]; 2]) -> Option<&'b Ran> {
        let is_same = |other: &&&Ran| (&other.op, &other.domain) == (&ran.op, &ran.domain);
        let mut partners = a.iter().filter(is_same);
        let partner = partners.next().filter(|_| partners.next().is_none())?;
        (b.iter().filter(is_same).count() == 1).then_some(*partner)
    }
}
