from .base import Decisions as Decisions
from .base import OpenSetClassifier as OpenSetClassifier
from .base import RawPrediction as RawPrediction
from .dictionary_classifier import DictionaryClassifier as DictionaryClassifier
from .open_set_pipeline import OpenSetPipeline as OpenSetPipeline
from .open_set_pipeline import make_open_set_pipeline as make_open_set_pipeline
from .src_classifier import SRCClassifier as SRCClassifier
from .srosr_classifier import SROSRClassifier as SROSRClassifier
