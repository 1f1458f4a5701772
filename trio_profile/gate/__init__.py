"""The public path of `kinds/gate`: its pytest plugin.

In a workload's name it stands for the default workload: `trio_profile.gate:prefill`.
"""
