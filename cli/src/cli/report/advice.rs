//! What is wrong in a sentence, and what to do about it.

use crate::cli::found::audited::Audited;
use crate::cli::found::compared::Compared;
use crate::cli::message::single_line;
use crate::cli::report::phrases::{
    cast_types, partings, passing, range_in_words, type_name, what_happened,
};

/// What is wrong and where, in a sentence; `None` where nothing is.
pub(crate) fn headline(pair: &Compared) -> Option<String> {
    let (_, parting) = partings(pair).next()?;
    let tensor = &parting.tensor;
    let name = single_line(&tensor.name);
    let cause = parting.culprit.as_ref().or(parting.cast.as_ref());
    let cause = cause.filter(|cast| cast.damaged() + cast.lost() > 0);
    let what = match tensor {
        _ if tensor.nan_differences > 0 => "has NaN that the reference does not have",
        _ if tensor.infinity_differences > 0 => "has infinities that the reference does not have",
        _ if tensor.beyond_target > 0 => "is of a type that does not hold its values",
        _ => "is the first that is off by more than the tolerance",
    };
    Some(match cause {
        Some(cast) => format!(
            "`{name}` {what}, for the {} `{}` ({}) before it does this: {}; its source is {}{}",
            single_line(&cast.op),
            single_line(&cast.node),
            cast_types(cast),
            what_happened(cast),
            range_in_words(&cast.source),
            cast.target
                .as_ref()
                .map_or(String::new(), |t| format!(", its target ends at {}", t.max)),
        ),
        None => format!(
            "`{name}`, which {} `{}` makes, {what}",
            single_line(&parting.op),
            single_line(&parting.node)
        ),
    })
}

/// What to do about a comparison that failed.
pub(crate) fn of_comparison(pair: &Compared) -> Option<String> {
    let (_, parting) = partings(pair).next()?;
    let cast = parting.culprit.as_ref().or(parting.cast.as_ref());
    let tensor = &parting.tensor;
    let apart = tensor.nan_differences + tensor.infinity_differences + tensor.beyond_target;
    let node = single_line(cast.map_or(&parting.node, |cast| &cast.node));
    Some(match apart {
        0 => format!(
            "It drifts: if {} is too far, keep the nodes before `{}` in the reference's type; else a tolerance that passes is {}.",
            tensor.max_abs,
            single_line(&tensor.name),
            pair.outputs.iter().find(|output| !output.passed).map_or("none".into(), passing)
        ),
        _ => format!(
            "Keep the nodes about `{node}` in a type that holds their values, such as FLOAT, and cast behind them, where the values are small again."
        ),
    })
}

/// What an audit's failure is in a sentence, and what to do about it.
pub(crate) fn of_audit(model: &Audited) -> Option<String> {
    let worst = model.casts.iter().chain(&model.roundings).find(|cast| cast.damaged() > 0)?;
    let node = single_line(&worst.node);
    let holds =
        worst.target.as_ref().map_or(String::new(), |t| format!(", which ends at {}", t.max));
    Some(format!(
        "`{node}` ({}) spoils values: its source is {}, its target {}{holds}. Keep the nodes about it in a type that holds them, or allow it with --allow if that is meant.",
        cast_types(worst),
        range_in_words(&worst.source),
        type_name(&worst.to),
    ))
}
