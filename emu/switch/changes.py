"""FLOW_MOD and GROUP_MOD: checked against what the switch can do, then turned into operations."""

from collections.abc import Collection, Iterator

from emu.switch import decode
from emu.switch.entries import Action, ActionKind, Entry, Operation
from emu.switch.match import form
from emu.switch.openflow13 import ProtocolError, ofp
from emu.switch.table import FlowTable, TableFullError

_DELETES = (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)


def change_flows(table: FlowTable, ports: Collection[int], body: bytes, now_ns: int) -> Iterator[Operation]:
    """Raise ProtocolError before the first operation, or not at all."""
    mod = decode.flow_mod(body)
    _check_flow_mod(mod, table, ports)
    if mod.command in _DELETES:
        yield from table.delete(mod.selection)
    elif mod.command == ofp.OFPFC_ADD:
        entry = Entry(mod.selection.match, mod.priority, mod.action, mod.cookie, mod.flags, 0, now_ns)
        try:
            yield from table.add(entry, bool(mod.flags & ofp.OFPFF_RESET_COUNTS))
        except TableFullError as error:
            raise ProtocolError(ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL) from error
    else:
        yield from table.modify(mod.selection, mod.action)


def change_groups(table: FlowTable, ports: Collection[int], body: bytes) -> Iterator[Operation]:
    """Raise ProtocolError before the first operation, or not at all."""
    mod = decode.group_mod(body)
    if mod.command == ofp.OFPGC_DELETE:
        chosen = sorted(table.groups) if mod.number == ofp.OFPG_ALL else [mod.number]
        for number in chosen:
            if number in table.groups:  # deleting a group that is not there is no error
                yield from table.delete_group(number)
        return
    _check_group_mod(mod, table, ports)
    try:
        yield from table.set_group(mod.number, mod.group)
    except TableFullError as error:
        raise _group_error(ofp.OFPGMFC_OUT_OF_GROUPS) from error
    except ValueError as error:
        raise _group_error(ofp.OFPGMFC_WEIGHT_UNSUPPORTED) from error


def _check_flow_mod(mod: decode.FlowMod, table: FlowTable, ports: Collection[int]) -> None:
    is_delete = mod.command in _DELETES
    if mod.command > ofp.OFPFC_DELETE_STRICT:
        raise _flow_error(ofp.OFPFMFC_BAD_COMMAND)
    if mod.table != 0 and not (is_delete and mod.table == ofp.OFPTT_ALL):
        raise _flow_error(ofp.OFPFMFC_BAD_TABLE_ID)
    if mod.flags & ~ofp.OFPFF_RESET_COUNTS:
        raise _flow_error(ofp.OFPFMFC_BAD_FLAGS)
    if is_delete:
        return
    if mod.has_timeout:
        raise _flow_error(ofp.OFPFMFC_BAD_TIMEOUT)
    if mod.has_buffer:
        raise ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BUFFER_UNKNOWN)
    if mod.command == ofp.OFPFC_ADD and form(mod.selection.match) is None:
        raise ProtocolError(ofp.OFPET_BAD_MATCH, ofp.OFPBMC_BAD_WILDCARDS)
    _check_action(mod.action, table, ports)


def _check_group_mod(mod: decode.GroupMod, table: FlowTable, ports: Collection[int]) -> None:
    exists = mod.number in table.groups
    if mod.command not in (ofp.OFPGC_ADD, ofp.OFPGC_MODIFY):
        raise _group_error(ofp.OFPGMFC_BAD_COMMAND)
    if mod.group.kind not in (ofp.OFPGT_SELECT, ofp.OFPGT_INDIRECT):
        raise _group_error(ofp.OFPGMFC_BAD_TYPE)
    if mod.number > ofp.OFPG_MAX:
        raise _group_error(ofp.OFPGMFC_INVALID_GROUP)
    if mod.command == ofp.OFPGC_ADD and exists:
        raise _group_error(ofp.OFPGMFC_GROUP_EXISTS)
    if mod.command == ofp.OFPGC_MODIFY and not exists:
        raise _group_error(ofp.OFPGMFC_UNKNOWN_GROUP)
    if mod.group.kind == ofp.OFPGT_INDIRECT and len(mod.group.buckets) != 1:
        raise _group_error(ofp.OFPGMFC_INVALID_GROUP)
    for bucket in mod.group.buckets:
        _check_action(Action(ActionKind.OUTPUT, bucket.port), table, ports)


def _check_action(action: Action, table: FlowTable, ports: Collection[int]) -> None:
    if action.kind == ActionKind.OUTPUT and action.argument not in ports:
        raise ProtocolError(ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_PORT)
    if action.kind == ActionKind.GROUP and action.argument not in table.groups:
        raise ProtocolError(ofp.OFPET_BAD_ACTION, ofp.OFPBAC_BAD_OUT_GROUP)


def _flow_error(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_FLOW_MOD_FAILED, code)


def _group_error(code: int) -> ProtocolError:
    return ProtocolError(ofp.OFPET_GROUP_MOD_FAILED, code)
