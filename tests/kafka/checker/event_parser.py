"""A strict parser of payloads: returns item and time, or the reason for a rejection.

Written from the documented rules, not from the service's code. Values keep their source form: 1, 1.0 and "1" are three
different items.
"""

import json
import math

MIN_TIME, MAX_TIME = -(2**63), 2**63 - 1


class Literal(str):
    """The source text of a number or boolean."""

    __slots__ = ()


class Rejected(Exception):
    """The record is not a valid event; the argument is the reason."""


class EventParser:
    """Parses the events of one stream."""

    def __init__(self, event, limits):
        self.item_paths = [path.split(".") for path in event["item"]]
        self.key_path = event["key"].split(".") if event.get("key") else None
        self.time_path = event["time"].split(".") if event.get("time") else None
        numbers = [event.get(name) for name in ("value", "weight", "importance")]
        self.number_paths = [path.split(".") for path in numbers if path]
        self.id_path = event["id"].split(".") if event.get("id") else None
        self.max_bytes = limits.get("record", 1 << 20)
        self.max_depth = limits.get("depth", 64)
        self.max_fields = limits.get("fields", 1024)
        self.max_key_bytes = limits.get("key", 1024)
        self.fields = 0
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=Literal,
            parse_float=self._float,
            parse_constant=self._constant,
            strict=True,
        )

    def parse(self, payload):
        """Returns the item and the time in milliseconds (None without a time field); raises Rejected."""
        document = self._document(payload)
        item = [self._text(document, path) for path in self.item_paths]
        if self.key_path:
            item.append(self._text(document, self.key_path))
        time_ms = self._time(document) if self.time_path else None
        if self.id_path:
            self._text(document, self.id_path)
        for path in self.number_paths:
            value = self._required(document, path)
            if type(value) is not Literal or value[0] not in "-0123456789":
                raise Rejected("schema")
        return "\0".join(item), time_ms

    def _document(self, payload):
        if not payload:
            raise Rejected("empty")
        if len(payload) > self.max_bytes:
            raise Rejected("limits")
        try:
            text = payload.decode("utf-8")
        except UnicodeDecodeError:
            raise Rejected("encoding") from None
        if text.startswith("\ufeff"):
            raise Rejected("encoding")
        self._check_depth(text)
        self.fields = 0
        try:
            document, end = self.decoder.raw_decode(text, len(text) - len(text.lstrip(" \t\n\r")))
        except (json.JSONDecodeError, RecursionError):
            raise Rejected("encoding" if b"\0" in payload else "parse") from None
        if text[end:].strip(" \t\n\r"):
            raise Rejected("encoding" if b"\0" in payload else "parse")
        if type(document) is not dict:
            raise Rejected("schema")
        return document

    def _check_depth(self, text):
        """Limits the nesting before the recursive decoder runs."""
        if text.count("[") + text.count("{") <= self.max_depth:
            return
        depth, quoted, escaped = 0, False, False
        for character in text:
            if quoted:
                if escaped:
                    escaped = False
                elif character == "\\":
                    escaped = True
                elif character == '"':
                    quoted = False
            elif character == '"':
                quoted = True
            elif character in "[{":
                depth += 1
                if depth > self.max_depth:
                    raise Rejected("limits")
            elif character in "]}":
                depth -= 1

    def _object(self, pairs):
        self.fields += len(pairs)
        if self.fields > self.max_fields:
            raise Rejected("limits")
        document = dict(pairs)
        for name in document:
            if len(name) > self.max_key_bytes // 4 and len(name.encode("utf-8", "replace")) > self.max_key_bytes:
                raise Rejected("limits")
        if len(document) != len(pairs):
            raise Rejected("duplicate_key")
        return document

    @staticmethod
    def _float(text):
        if not math.isfinite(float(text)):
            raise Rejected("parse")
        return Literal(text)

    @staticmethod
    def _constant(_text):
        raise Rejected("parse")

    @staticmethod
    def _required(document, path):
        for name in path:
            if type(document) is not dict:
                raise Rejected("schema")
            document = document.get(name)
        if document is None or type(document) in (dict, list):
            raise Rejected("schema")
        return Literal("true" if document else "false") if type(document) is bool else document

    def _text(self, document, path):
        """The text of a field, prefixed with whether it was quoted."""
        value = self._required(document, path)
        if type(value) is Literal:
            return "b" + value
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise Rejected("encoding") from None
        if "\0" in value:
            raise Rejected("encoding")
        return "q" + value

    def _time(self, document):
        value = self._required(document, self.time_path)
        if type(value) is not Literal or value in ("true", "false"):
            raise Rejected("schema")
        try:
            time_ms = int(value)
        except ValueError:
            time_ms = math.floor(float(value))
        return min(max(time_ms, MIN_TIME), MAX_TIME)
