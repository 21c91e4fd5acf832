"""What a payload says, read strictly and on its own: an item, a time, or the reason why it is no event.

Written from the documented rules, not from the service's code. Texts and numbers keep their source form: 1, 1.0 and "1"
are three different items.
"""

import json
import math

LEAST_TIME, MOST_TIME = -(2**63), 2**63 - 1


class Bare(str):
    """A number or boolean, to the letter."""

    __slots__ = ()


class Refused(Exception):
    """The record is no event; the argument is the reason."""


class Reading:
    """How the events of one stream are read."""

    def __init__(self, event, limits):
        self.item_paths = [path.split(".") for path in event["item"]]
        self.key_path = event["key"].split(".") if event.get("key") else None
        self.time_path = event["time"].split(".") if event.get("time") else None
        numbers = [event.get(name) for name in ("value", "weight", "importance")]
        self.number_paths = [path.split(".") for path in numbers if path]
        self.id_path = event["id"].split(".") if event.get("id") else None
        self.most_bytes = limits.get("record", 1 << 20)
        self.most_depth = limits.get("depth", 64)
        self.most_fields = limits.get("fields", 1024)
        self.most_key_bytes = limits.get("key", 1024)
        self.fields = 0
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=Bare,
            parse_float=self._float,
            parse_constant=self._constant,
            strict=True,
        )

    def read(self, payload):
        """Item, and time in milliseconds (None without one); raises Refused."""
        document = self._document(payload)
        item = [self._text(document, path) for path in self.item_paths]
        if self.key_path:
            item.append(self._text(document, self.key_path))
        time_ms = self._time(document) if self.time_path else None
        if self.id_path:
            self._text(document, self.id_path)
        for path in self.number_paths:
            value = self._required(document, path)
            if type(value) is not Bare or value[0] not in "-0123456789":
                raise Refused("schema")
        return "\0".join(item), time_ms

    def _document(self, payload):
        if not payload:
            raise Refused("empty")
        if len(payload) > self.most_bytes:
            raise Refused("limits")
        try:
            text = payload.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused("encoding") from None
        if text.startswith("\ufeff"):
            raise Refused("encoding")
        self._check_depth(text)
        self.fields = 0
        try:
            document, end = self.decoder.raw_decode(text, len(text) - len(text.lstrip(" \t\n\r")))
        except (json.JSONDecodeError, RecursionError):
            raise Refused("encoding" if b"\0" in payload else "parse") from None
        if text[end:].strip(" \t\n\r"):
            raise Refused("encoding" if b"\0" in payload else "parse")
        if type(document) is not dict:
            raise Refused("schema")
        return document

    def _check_depth(self, text):
        """Brackets outside strings, counted before anything recurses."""
        if text.count("[") + text.count("{") <= self.most_depth:
            return
        depth, quoted, escaped = 0, False, False
        for letter in text:
            if quoted:
                if escaped:
                    escaped = False
                elif letter == "\\":
                    escaped = True
                elif letter == '"':
                    quoted = False
            elif letter == '"':
                quoted = True
            elif letter in "[{":
                depth += 1
                if depth > self.most_depth:
                    raise Refused("limits")
            elif letter in "]}":
                depth -= 1

    def _object(self, pairs):
        self.fields += len(pairs)
        if self.fields > self.most_fields:
            raise Refused("limits")
        found = dict(pairs)
        for name in found:
            if len(name) > self.most_key_bytes // 4 and len(name.encode("utf-8", "replace")) > self.most_key_bytes:
                raise Refused("limits")
        if len(found) != len(pairs):
            raise Refused("duplicate_key")
        return found

    @staticmethod
    def _float(text):
        if not math.isfinite(float(text)):
            raise Refused("parse")
        return Bare(text)

    @staticmethod
    def _constant(_text):
        raise Refused("parse")

    @staticmethod
    def _required(document, path):
        for name in path:
            if type(document) is not dict:
                raise Refused("schema")
            document = document.get(name)
        if document is None or type(document) in (dict, list):
            raise Refused("schema")
        return Bare("true" if document else "false") if type(document) is bool else document

    def _text(self, document, path):
        """The text of a field, marked with whether it stood in quotes."""
        value = self._required(document, path)
        if type(value) is Bare:
            return "b" + value
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise Refused("encoding") from None
        if "\0" in value:
            raise Refused("encoding")
        return "q" + value

    def _time(self, document):
        value = self._required(document, self.time_path)
        if type(value) is not Bare or value in ("true", "false"):
            raise Refused("schema")
        try:
            time_ms = int(value)
        except ValueError:
            time_ms = math.floor(float(value))
        return min(max(time_ms, LEAST_TIME), MOST_TIME)
