"""The JSON schema of a study file, in which the docstring of each field is its description.

Pydantic can do that, too (`use_attribute_docstrings`), but while it makes a model: there it parses the source of each class, and every
command would wait a quarter of a second for what two of them show.
"""

import ast
import inspect
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from envknee.study.model import Study


def study_schema() -> dict[str, Any]:
    """Return the JSON schema of a study file."""
    return Study.model_json_schema(schema_generator=DescribedSchema)


class DescribedSchema(GenerateJsonSchema):
    """Describes a model's properties by the docstrings of its fields."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model; a description that a field has of its own stays."""
        described = super().model_schema(schema)
        docstrings = field_docstrings(schema["cls"])
        for name, of_property in described["properties"].items():
            if name in docstrings:
                of_property.setdefault("description", docstrings[name])
        return described


def field_docstrings(model: type[Any]) -> dict[str, str]:
    """Return field -> the text below it in the source of a class or of those that it inherits from."""
    docstrings: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        if parent.__module__.startswith("envknee."):
            docstrings |= _own_docstrings(parent)
    return docstrings


def _own_docstrings(of_class: type[Any]) -> dict[str, str]:
    try:
        source = inspect.getsource(of_class)
    except OSError:  # a model that `create_model` made has none
        return {}
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef), f"{of_class} is not at the top of its module"
    docstrings = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            docstrings[field.target.id] = inspect.cleandoc(below.value.value)
    return docstrings
