from .base import Decisions as Decisions
from .base import Judgement as Judgement
from .base import OpenSetClassifier as OpenSetClassifier
from .dictionary_classifier import DictionaryClassifier as DictionaryClassifier
from .src_classifier import SRCClassifier as SRCClassifier
from .srosr_classifier import SROSRClassifier as SROSRClassifier
