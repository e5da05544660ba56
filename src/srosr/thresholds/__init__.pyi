from .choice import OBJECTIVES as OBJECTIVES
from .choice import CalibrationSplit as CalibrationSplit
from .choice import Threshold as Threshold
from .choice import check_threshold as check_threshold
from .choice import choose_threshold as choose_threshold
from .choice import rejection_threshold as rejection_threshold
from .choice import use_fixed_threshold as use_fixed_threshold
