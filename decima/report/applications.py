"""The section of a what-if of several applications: plain words first, figures after."""

from __future__ import annotations

from decima.registry import HEURISTICS
from decima.report.forest import Forest, forest
from decima.report.section import Section, completion
from decima.whatif.advice import can_be_trusted
from decima.whatif.applications.advice import caveats, findings
from decima.whatif.applications.report import application_rows, facts, way_cells
from decima.whatif.applications.settings import OWN_WAYS
from decima.whatif.applications.study import ApplicationsWhatIf
from decima.whatif.replay.report import verdict


def applications_section(found: ApplicationsWhatIf) -> Section:
    """Section with the results of `decima whatif --applications`."""
    return Section(
        anchor="applications",
        heading="What another division of the executors would change",
        template="applications.html",
        content={
            "facts": [*facts(found), verdict(found.check())],
            "findings": list(findings(found)),
            "caveats": list(caveats(found)),
            "reference": found.settings.reference,
            "executors": found.workload.executors,
            "ways": {name: way_cells(found, name) for name in found.ways},
            "summaries": {name: _summary(name) for name in found.ways},
            "applications": list(application_rows(found)),
        },
        forest=_forest(found),
        charts=[
            completion(
                "the recorded jobs",
                {name: one.jct_s.mean(axis=0) for name, one in found.ways.items()},
            )
        ],
    )


def _forest(found: ApplicationsWhatIf) -> Forest | None:
    """Average JCT against the reference, paired by draw; None where the replay is too far off."""
    if not can_be_trusted(found.check()):
        return None
    reference = found.settings.reference
    rows = {name: found.of_draws(name) for name in found.ways if name != reference}
    return forest(f"Average JCT against {reference}", rows)


def _summary(way: str) -> str:
    """One line that explains a way."""
    if way in OWN_WAYS:
        return OWN_WAYS[way]
    if way in HEURISTICS:
        return f"a coordinator's policy: {HEURISTICS[way].summary}"
    return "a coordinator's policy: a graph network chooses the next stage and its limit"
