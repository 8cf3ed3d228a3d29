"""The options of a replay by groups, as `--help` shows them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from replayer.options.plan_groups import CapacityOptions, LoadOptions, ModelOptions, RuleOptions, WorkOptions
from replayer.options.run_groups import ControlOptions, DeviceOptions, SpanOptions
from replayer.options.types import OptionTable, list_options
from replayer.record.options import DurationOrigin
from tracegen.errors import InputError
from tracegen.typed_files import suggest

# Values of options by name.
Values = dict[str, Any]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a replay."""

    model: ModelOptions = ModelOptions()
    capacity: CapacityOptions = CapacityOptions()
    rules: RuleOptions = RuleOptions()
    work: WorkOptions = WorkOptions()
    load: LoadOptions = LoadOptions()
    span: SpanOptions = SpanOptions()
    devices: DeviceOptions = DeviceOptions()
    control: ControlOptions = ControlOptions()
    duration_by: DurationOrigin = "user"


_FIELDS: Final = [field for field in msgspec.structs.fields(Options) if field.name != "duration_by"]
# The groups by their names in `Options`, in the order of `--help`.
GROUPS: Final[dict[str, type[OptionTable]]] = {field.name: field.type for field in _FIELDS}
# The groups that decide a plan; a prediction takes the span, too.
PLAN_GROUPS: Final = (ModelOptions, CapacityOptions, RuleOptions, WorkOptions, LoadOptions)
_GROUP_OF: Final = {name: group for group, table in GROUPS.items() for name in list_options(table)}


def make_options(values: Mapping[str, Any]) -> Options:
    """Return options of values by name; those that are None or absent have their defaults.

    Raises:
        InputError: there is no option of that name.
    """
    groups = defaultdict[str, Values](dict)
    for name, value in values.items():
        if name not in _GROUP_OF:
            raise InputError("is not an option", suggest(name, _GROUP_OF), subject=name)
        if value not in (None, ()):
            groups[_GROUP_OF[name]][name] = value
    made: Values = {group: GROUPS[group](**own) for group, own in groups.items()}
    return Options(**made)
