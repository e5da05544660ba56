from .evaluation import WORST as WORST
from .evaluation import ClassLine as ClassLine
from .evaluation import Evaluation as Evaluation
from .evaluation import Gathering as Gathering
from .evaluation import Trade as Trade
from .evaluation import UnexpectedLabel as UnexpectedLabel
from .metric_table import Measure as Measure
