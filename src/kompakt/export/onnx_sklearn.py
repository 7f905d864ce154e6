"""skl2onnx can convert kompakt's estimators, alone or inside pipelines, once `register_skl2onnx` has been called."""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.export.folded import decision_shape, folded
from kompakt.export.onnx_file import Graph, label_array
from kompakt.io.fitted import model_of
from kompakt.model import Model

_ESTIMATORS = (
    "CGLQSVC", "CompactSVC", "CompactSVR", "FEESVC", "FEESVR", "FixedSizeLSSVC", "FixedSizeLSSVR", "GreedyProjection",
    "KernelFisher", "LocalSamplingSVC", "ProjectedKernelFisher", "ProjectedSVC", "SpSVC",
)  # fmt: skip
#: a pipeline's converter sets zipmap=True for its classifier unless options say otherwise, so both values must be taken
_OPTIONS = {"zipmap": [False, True], "raw_scores": [False, True]}
_LEAST_OPSET = 13  # from there on Squeeze and Unsqueeze take their axes as an input


def register_skl2onnx() -> None:
    """Teach skl2onnx kompakt's estimators, so that `skl2onnx.convert_sklearn` takes them, alone or in a pipeline.

    A classifier has the outputs ``label`` (n,), ``probabilities`` (n, n_classes) if it was fitted with
    ``calibrate=True``, and ``scores`` (n, n_scores), the values of `decision_function`; with two classes there is one
    score.  A regressor and the transformer have the output ``variable``.  The precision is that of the input type that
    `convert_sklearn` is given (float32 unless it is `DoubleTensorType`).

    Outputs are always tensors: the option ``zipmap`` is taken and changes nothing.  With the option
    ``{"raw_scores": True}`` there are no probabilities, and two classes have two scores, -f and f, as in skl2onnx's
    own converters; `CalibratedClassifierCV` asks for these.

    Raises
    ------
    ImportError
        If skl2onnx is missing.

    Examples
    --------
    >>> import kompakt
    >>> from kompakt.export import register_skl2onnx
    >>> from skl2onnx import to_onnx as convert
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), kompakt.CompactSVC(n_basis=10, random_state=0)).fit(X, y)
    >>> register_skl2onnx()
    >>> [output.name for output in convert(pipeline, X[:1]).graph.output]
    ['label', 'scores']
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError(
            "converting with skl2onnx needs skl2onnx, which is not installed. "
            'Install the extra: pip install "kompakt[onnx]".'
        ) from error
    import kompakt

    for name in _ESTIMATORS:
        update_registered_converter(
            getattr(kompakt, name), f"Kompakt{name}", _shapes, _convert, parser=_parse, options=_OPTIONS
        )


def _estimator_model(estimator: Any) -> Model:
    """The model of an estimator; a projection is one whose outputs are the coordinates."""
    if type(estimator).__name__ != "GreedyProjection":
        return model_of(estimator)
    from sklearn.utils.validation import check_is_fitted

    from kompakt.linalg import Factor

    check_is_fitted(estimator)
    weights = Factor(estimator.factor_).inverse()
    return Model(
        estimator.kernel_, np.asarray(estimator.basis_vectors_), weights, np.zeros(weights.shape[1]), "regressor",
        n_features=estimator.n_features_in_, squeeze=False,
    )  # fmt: skip


def _outputs(scope: Any, estimator: Any, rows: Any) -> dict[str, Any]:
    """Names and types of the outputs, for input of the type `rows`.

    All are tensors, no ZipMap; probabilities are second, where others' converters have them.
    """
    from skl2onnx.common import data_types

    model, raw_scores = _estimator_model(estimator), _raw_scores(scope, estimator)
    n = rows.shape[0] if rows.shape else None

    def tensor(width: int) -> Any:
        made = data_types.guess_tensor_type(rows)
        made.shape = [n, width]
        return made

    n_scores = decision_shape(model)[0]
    if model.kind == "regressor":
        return {"variable": tensor(n_scores)}
    names = {"O": "StringTensorType", "i": "Int64TensorType", "f": "DoubleTensorType", "b": "BooleanTensorType"}
    outputs = {"label": getattr(data_types, names[label_array(folded(model).classes).dtype.kind])([n])}
    if model.calibration is not None and not raw_scores:
        outputs["probabilities"] = tensor(len(model.classes_))
    both = model.kind == "classifier" and raw_scores
    return outputs | {"scores": tensor(len(model.classes_) if both else n_scores)}


def _raw_scores(scope_or_container: Any, estimator: Any) -> bool:
    return bool(scope_or_container.get_options(estimator, {"raw_scores": False})["raw_scores"])


def _parse(scope: Any, estimator: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs."""
    operator = scope.declare_local_operator(f"Kompakt{type(estimator).__name__}", estimator)
    operator.inputs.append(inputs[0])
    outputs = _outputs(scope, estimator, inputs[0].type)
    operator.outputs.extend(scope.declare_local_variable(name, kind) for name, kind in outputs.items())
    return operator.outputs


def _shapes(operator: Any) -> None:
    outputs = _outputs(operator.scope_inst, operator.raw_operator, operator.inputs[0].type)
    # an ensemble's converter asks for the first two outputs only
    for output, kind in zip(operator.outputs, outputs.values(), strict=False):
        output.type = kind


class _ContainerGraph(Graph):
    """A graph whose nodes go to the container of skl2onnx."""

    def __init__(self, model: Model, dtype: Any, scope: Any, container: Any) -> None:
        super().__init__(model, dtype)
        self.scope, self.container = scope, container

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = str(self.scope.get_unique_variable_name(f"kompakt_{op.lower()}"))
        self.container.add_node(
            op, list(inputs), [name], op_version=None, name=self.scope.get_unique_operator_name(op), **attributes
        )
        return name

    def constant(self, values: np.ndarray) -> str:
        from onnx import helper

        name = str(self.scope.get_unique_variable_name("kompakt_constant"))
        content = [text.encode() for text in values] if values.dtype.kind == "O" else values.ravel()
        kind = helper.np_dtype_to_tensor_dtype(values.dtype)
        self.container.add_initializer(name, kind, list(values.shape), content)
        return name


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, guess_proto_type

    opset = container.target_opset_any_domain("")
    if opset < _LEAST_OPSET:
        raise ValueError(f"kompakt's machines need ONNX opset {_LEAST_OPSET} or later; target_opset is {opset}.")
    kind = operator.inputs[0].type
    double = isinstance(kind, DoubleTensorType)
    model = folded(_estimator_model(operator.raw_operator), single=not double)
    graph = _ContainerGraph(model, np.float64 if double else np.float32, scope, container)
    rows = operator.inputs[0].full_name
    if not isinstance(kind, DoubleTensorType | FloatTensorType):
        rows = graph.add("Cast", rows, to=guess_proto_type(FloatTensorType()))
    scores = graph.scores(graph.outputs(rows))
    results = [scores] if model.kind == "regressor" else [graph.labels(scores), scores]
    if model.kind == "classifier" and _raw_scores(container, operator.raw_operator):
        if len(model.classes_) == 2:
            results[1] = graph.add("Concat", graph.add("Neg", scores), scores, axis=1)
    elif model.calibration is not None:
        results.insert(1, graph.probabilities(scores))
    for result, output in zip(results, operator.outputs, strict=False):
        container.add_node("Identity", [result], [output.full_name], name=scope.get_unique_operator_name("Identity"))
