from .base import Decisions as Decisions
from .base import OpenSetClassifier as OpenSetClassifier
from .base import RawPrediction as RawPrediction
from .dictionary_classifier import DictionaryClassifier as DictionaryClassifier
from .src_classifier import SRCClassifier as SRCClassifier
from .srosr_classifier import SROSRClassifier as SROSRClassifier
