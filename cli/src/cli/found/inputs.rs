//! Where the inputs came from that a verdict is about.

use serde::{Deserialize, Serialize};

use super::coverage::{Unexercised, UnexercisedKind};
use super::finding::{Code, FindingRow, Severity};
use super::look::InputLook;
use super::status::Status;
use crate::cli::caller::told;
use crate::cli::message::{counted, listed, single_line};

/// What a model ran on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Inputs {
    pub(crate) origin: InputOrigin,
    /// The inputs that have random values.
    pub(crate) random: Vec<String>,
    /// The seeds of the random values, one for each set.
    pub(crate) seeds: Vec<u64>,
    /// The files and folders that the values were read from, where somebody has named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) from: Vec<String>,
    /// What was chosen of them.
    #[serde(default, skip_serializing_if = "InputLook::is_empty")]
    pub(crate) look: InputLook,
}

/// Whose values the inputs have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputOrigin {
    /// The model takes none.
    #[default]
    None,
    /// Outputs were read instead of made.
    Saved,
    /// Files have all of them.
    Given,
    /// Nobody has given any.
    Random,
    /// Files have some, the others are random.
    PartlyRandom,
}

impl Inputs {
    /// Of a model that takes so many inputs, and of sets of which each tells its random inputs and
    /// their seed.
    pub(crate) fn of(
        takes: usize,
        sets: impl Iterator<Item = Option<(Vec<String>, u64, InputLook)>>,
    ) -> Inputs {
        let mut inputs = Inputs::default();
        for (random, seed, look) in sets.flatten() {
            (inputs.random, inputs.look) = (random, look);
            if !inputs.seeds.contains(&seed) {
                inputs.seeds.push(seed);
            }
        }
        inputs.origin = match inputs.random.len() {
            _ if takes == 0 => InputOrigin::None,
            0 => InputOrigin::Given,
            random if random < takes => InputOrigin::PartlyRandom,
            _ => InputOrigin::Random,
        };
        inputs
    }

    /// Of outputs that somebody else made.
    pub(crate) fn saved() -> Inputs {
        Inputs { origin: InputOrigin::Saved, ..Inputs::default() }
    }

    /// A warning that the verdict is about random values, if it is.
    pub(crate) fn warning(&self, status: Status) -> Option<FindingRow> {
        let so = match status {
            Status::Passed => "so a pass says little",
            _ => "and real ones may do less harm, or more",
        };
        let way = told(
            "give real ones with -i, or say where they lie with --range NAME=LOW:HIGH",
            "give real ones as `inputs`, or say where they lie with `ranges`",
        );
        self.is_random().then(|| {
            let sentence = format!("{}, {so}: {way}", self.randomness());
            FindingRow::new(Code::RandomInputs, sentence)
        })
    }

    /// Rows of how wide those look that were chosen.
    pub(crate) fn looked(&self) -> impl Iterator<Item = FindingRow> {
        let row =
            |code: Code, words: Option<String>| words.map(|words| FindingRow::new(code, words));
        let rows = [
            row(Code::LookedAt, self.look.in_words()),
            row(Code::OperatorsSaw, self.look.operators_in_words()),
        ];
        let is_random = self.is_random();
        rows.into_iter().flatten().filter(move |_| is_random)
    }

    /// A row that says on how little the verdict stands, if it is too little: one set alone, sizes
    /// of 1, or branches and casts that did not run. It fails a model where somebody wants that.
    pub(crate) fn narrow(
        &self,
        sets: usize,
        unexercised: &[Unexercised],
        is_strict: bool,
    ) -> Option<FindingRow> {
        let mut reasons = vec![];
        if self.is_random() && self.look.is_narrow() {
            reasons.push("every size that nobody set was 1, so nothing along an axis".to_owned());
        }
        if self.is_random() && sets == 1 {
            reasons.push("one set of random inputs alone".into());
        }
        let idle =
            unexercised.iter().filter(|part| !matches!(part.kind, UnexercisedKind::Rows)).count();
        if idle > 0 {
            reasons.push(format!("{idle} branch(es) and casts did not run"));
        }
        let sentence = format!("little evidence: {}", reasons.join("; "));
        let severity = if is_strict { Severity::Error } else { Severity::Warning };
        (!reasons.is_empty())
            .then(|| FindingRow { severity, ..FindingRow::new(Code::LooksNarrow, sentence) })
    }

    /// Which inputs are random, and what was chosen of them, as a note.
    pub(crate) fn note(&self) -> Option<String> {
        const TOLD: usize = 8;
        let name = |name: &String| format!("`{name}`");
        let mut names: Vec<String> = self.random.iter().take(TOLD).map(name).collect();
        let more = self.random.len().saturating_sub(TOLD);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        let chosen = self.look.in_words().map_or(String::new(), |words| format!("; {words}"));
        let (names, seeds) = (names.join(", "), self.seeds_in_words());
        self.is_random().then(|| format!("chosen inputs: {names} (random, {seeds}){chosen}"))
    }

    /// Which inputs are random, and of which seeds.
    fn randomness(&self) -> String {
        let seeds = self.seeds_in_words();
        match (&self.origin, &self.random[..]) {
            (InputOrigin::PartlyRandom, [name]) => {
                format!("the input `{name}` is random ({seeds})")
            }
            (InputOrigin::PartlyRandom, [name, more @ ..]) => {
                format!("the input `{name}` and {} more are random ({seeds})", more.len())
            }
            _ => format!("the inputs are random ({seeds})"),
        }
    }

    fn seeds_in_words(&self) -> String {
        let Some((first, more)) = self.seeds.split_first() else { return "no seed".into() };
        // Those behind the run of successors are what a search found.
        let follows = |(seed, place): &(&u64, u64)| Some(**seed) == first.checked_add(*place);
        let run = more.iter().zip(1..).take_while(follows).count();
        let mut words = match more.get(..run).and_then(<[u64]>::last) {
            Some(last) => format!("seeds {first} to {last}"),
            None if more.is_empty() => format!("seed {first}"),
            None => format!("seeds {first}"),
        };
        words.extend(more.iter().skip(run).map(|seed| format!(", {seed}")));
        words
    }

    /// On how many sets of what.
    pub(crate) fn sets_in_words(&self, sets: usize) -> String {
        let sets = counted(sets, "set");
        match self.origin {
            InputOrigin::None => "no inputs".into(),
            InputOrigin::Saved => format!("{sets} of saved outputs"),
            InputOrigin::Given if self.from.is_empty() => format!("{sets} of given inputs"),
            InputOrigin::Given => {
                const NAMED: usize = 2;
                let from = listed(self.from.iter().map(|from| single_line(from)), NAMED);
                format!("{sets} of inputs from {from}")
            }
            InputOrigin::Random => {
                format!("{sets} of random inputs ({})", self.seeds_in_words())
            }
            InputOrigin::PartlyRandom => {
                format!("{sets} of inputs, {}", self.randomness())
            }
        }
    }

    /// Whether other values may lead to another verdict, because nobody has chosen these.
    fn is_random(&self) -> bool {
        matches!(self.origin, InputOrigin::Random | InputOrigin::PartlyRandom)
    }
}
