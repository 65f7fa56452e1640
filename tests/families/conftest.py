"""How many random configurations are tried, and that they are the same each time."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "families",
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking boots hundreds of models, and these are small already
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
