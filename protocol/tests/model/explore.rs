//! The model as the checker sees it.

use stateright::{Model, Property};

use super::config::Config;
use super::goal::Goal;
use super::step::Step;
use super::witness::Rule;
use super::world::World;

impl Model for Config {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(self, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.take(self, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = rules();
        let settles = |config: &Self, world: &World| !world.is_stuck(config);
        properties.push(Property::always("P4 nothing stays in flight for ever", settles));
        properties.extend(self.goals.iter().map(|goal| goal.property()));
        properties
    }
}

/// A property must be a plain function, which a macro writes for each.
macro_rules! never_broken {
    ($($rule:ident),*) => {
        vec![$(Property::always(Rule::$rule.name(), |_, world: &World| {
            !world.witness.has_broken(Rule::$rule)
        })),*]
    };
}

fn rules() -> Vec<Property<Config>> {
    never_broken![
        OneExecution,
        GivenBackNeverRan,
        ReleasedIsDrained,
        OneAnswer,
        RealOutcome,
        StoredFirst,
        NotRunIsTrue,
        FencesGrow,
        StaleChangesNothing,
        LeaseEnds,
        NoGhost,
        SentUnderLease,
        OwnReplay,
        OperatorStands
    ]
}

macro_rules! reachable {
    ($goal:expr; $($name:ident),*) => {
        match $goal {
            $(Goal::$name => {
                let is_reached = |_: &Config, world: &World| Goal::$name.is_reached(world);
                Property::sometimes(Goal::$name.name(), is_reached)
            })*
        }
    };
}

impl Goal {
    fn property(self) -> Property<Config> {
        reachable![self;
            Replay,
            Refusal,
            SecondGeneration,
            TakenOver,
            LateCompletion,
            GivenUp,
            GhostReleased,
            ClaimedAgain,
            OperatorReleased,
            OperatorCompleted,
            Absent,
            Renewed,
            LeftOpen
        ]
    }
}
