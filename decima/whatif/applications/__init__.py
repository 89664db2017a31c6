"""What-ifs of several applications on one cluster. See `docs/applications.md`."""

from decima.whatif.applications.settings import ApplicationsSettings
from decima.whatif.applications.study import ApplicationsWhatIf, applications_what_if

__all__ = ["ApplicationsSettings", "ApplicationsWhatIf", "applications_what_if"]
