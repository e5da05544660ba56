from .choice import CalibrationSplit as CalibrationSplit
from .choice import choose_threshold as choose_threshold
from .choice import use_fixed_threshold as use_fixed_threshold
from .criteria import OBJECTIVES as OBJECTIVES
from .criteria import Threshold as Threshold
from .criteria import check_threshold as check_threshold
from .criteria import rejection_threshold as rejection_threshold
