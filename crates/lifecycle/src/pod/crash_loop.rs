//! When a container may be started again (L-306 to L-313).
//!
//! Whether it is to be started at all is decided in `actions`.

use jiff::Timestamp;

use crate::events;
use crate::go_duration;
use crate::outbox::Context;
use crate::pod::PodWorker;
use crate::pod::back_off::BackOffLimits;
use crate::pod::memory::StartError;
use crate::pod::shape::ContainerIndex;

impl PodWorker {
    pub(crate) fn limits(&self, cx: &Context<'_>) -> BackOffLimits {
        BackOffLimits { initial: cx.config.back_off_initial, max: cx.config.back_off_max }
    }

    /// Starts the first container of the list whose time has come. True if a start began or a wait was told.
    pub(crate) fn start_next(&mut self, cx: &mut Context<'_>, starts: &[ContainerIndex]) -> bool {
        let mut changed = false;
        for index in starts {
            if self.is_being_killed(*index) {
                continue;
            }
            if self.memory.at(*index).wait_until.is_some_and(|until| cx.now < until) {
                continue;
            }
            if self.backs_off(cx, *index) {
                changed = true;
                continue;
            }
            self.begin_start(cx, *index);
            return true;
        }
        changed
    }

    /// True if the container must wait after its last exit; the wait is remembered and told.
    fn backs_off(&mut self, cx: &mut Context<'_>, index: ContainerIndex) -> bool {
        let Some(ended) = self.records.of(index).find(|record| record.exit().is_some()).map(|r| r.id.clone()) else {
            return false;
        };
        if self.memory.at(index).counted.as_ref() == Some(&ended) {
            return false;
        }
        let limits = self.limits(cx);
        let own_finish = self.records.newest_finish(index);
        // L-309: after a kill that ends in a start, the instance before it counts first.
        let is_after_kill = self.memory.at(index).restart_after_kill.as_ref() == Some(&ended);
        let since = if is_after_kill { self.memory.at(index).finish_before_kill } else { own_finish };
        let Some(since) = since else {
            self.memory_mut(index, |memory| memory.counted = Some(ended));
            return false;
        };
        let mut until = self.memory.at(index).crash.waits_until(since, cx.now, limits);
        if is_after_kill && until.is_some() {
            until =
                own_finish.and_then(|finish| self.memory.at(index).crash.waits_until(finish, cx.now, limits)).or(until);
        }
        let Some(until) = until else {
            let now = cx.now;
            self.memory_mut(index, |memory| {
                memory.crash.count(since, now, limits);
                memory.counted = Some(ended);
            });
            return false;
        };
        self.tell_wait(cx, index, ended, own_finish, until);
        true
    }

    /// L-310.
    fn tell_wait(
        &mut self,
        cx: &mut Context<'_>,
        index: ContainerIndex,
        ended: crate::identity::ContainerId,
        own_finish: Option<Timestamp>,
        until: Timestamp,
    ) {
        let name = self.shape.containers.at(index).name.clone();
        let pod = events::pod_name(&self.reference);
        let delay = go_duration::format(self.memory.at(index).crash.delay());
        let event = format!("Back-off restarting failed container {name} in pod {pod}");
        self.container_event(cx, index, true, "BackOff", event);
        self.memory_mut(index, |memory| {
            memory.wait_until = Some(until);
            memory.waits_for = Some(ended);
            // From here on its own end counts.
            memory.finish_before_kill = own_finish;
            memory.start_error = Some(StartError {
                reason: "CrashLoopBackOff".to_owned(),
                message: format!("back-off {delay} restarting failed container={name} pod={pod}"),
            });
        });
        self.dirty = true;
    }
}
