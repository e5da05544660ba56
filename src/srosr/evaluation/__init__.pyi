from .evaluation import WORST as WORST
from .evaluation import ClassCounts as ClassCounts
from .evaluation import Evaluation as Evaluation
from .evaluation import EvaluationCollector as EvaluationCollector
from .evaluation import ThresholdEffect as ThresholdEffect
from .evaluation import UnexpectedLabel as UnexpectedLabel
from .evaluation import evaluate as evaluate
from .metric_table import Measure as Measure
